"""paceline run: train, measure, and say how it went."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, AsJson

EXIT = {"ok": 0, "failed": 1, "diverged": 1, "aborted": 130}


def run(
    workload: Annotated[
        str,
        typer.Argument(
            help="A workload (see `paceline workloads`) or a spec.toml.", autocompletion=completion.workloads
        ),
    ],
    engine: Annotated[str | None, typer.Option(help="torch, tensorflow.", autocompletion=completion.engines)] = None,
    strategy: Annotated[
        str | None, typer.Option(help="single, ps-sync, ps-async, allreduce.", autocompletion=completion.strategies)
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="single, cluster, cluster2, or hosts as words of p and w: 'pw w w'.", autocompletion=completion.layouts
        ),
    ] = None,
    batch: Annotated[str | None, typer.Option(help="Examples per worker and step.")] = None,
    size: Annotated[str | None, typer.Option(help="Form of the workload, e.g. small,large.")] = None,
    examples: Annotated[str | None, typer.Option(help="Training examples to use, of those there are.")] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="steps=N, loss=X, accuracy=X, epochs=N or seconds=N; repeated, the first that holds ends."),
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(help="local, or netns (Linux, root): hosts in a box.", autocompletion=completion.hosts)
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="Rate of a host's link: 100mbit, or '10mbit 1gbit' by host (netns).")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="Delay of what a host sends, e.g. 1ms (netns).")] = None,
    cpus: Annotated[
        str | None,
        typer.Option(help="Cores a host's tasks may use: 0.5, or '0.1 1 -' by host (netns)."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Something to go wrong: 'kill w1 at step 500', 'freeze h2 for 5s at 10s', cut, slow, limit."),
    ] = None,
    repeat: Annotated[int | None, typer.Option(help="How often to make each run.")] = None,
    seed: Annotated[str | None, typer.Option(help="Of the first weights and the data order.")] = None,
    eval_every: Annotated[str | None, typer.Option(help="Updates between evaluations by the chief.")] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(help="Updates between checkpoints to resume from, or a time: 500, 30s.")
    ] = None,
    backup: Annotated[
        str | None, typer.Option(help="Slowest workers that an update of ps-sync does not wait for (torch).")
    ] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(help="fail, or restart (from the last checkpoint where training cannot go on without the task)."),
    ] = None,
    restarts: Annotated[str | None, typer.Option(help="How often at most (default 3).")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the sweep; the same name again finishes it.")] = None,
    runs: Annotated[str | None, typer.Option(help=f"Directory that holds the runs (default {DEFAULT_RUNS}).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any other field: lr, momentum, threads, transport, sample_hz ...")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve live metrics for Prometheus on 127.0.0.1 at this port; 0: any free one.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and start nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Train WORKLOAD on a cluster and measure it. Comma-separated lists make a sweep of all combinations."""
    from paceline import pipeline
    from paceline.analyze.comparison import compare
    from paceline.cli.console import messages, output
    from paceline.metrics.sweep_state import SweepState
    from paceline.spec.load import assignments, experiment, load_toml, split_list
    from paceline.store.result import Result, encode
    from paceline.terminal import live
    from paceline.terminal.compare import comparison_view
    from paceline.terminal.details import details
    from paceline.terminal.plan import plan_table

    fields: dict[str, Any] = load_toml(Path(workload)) if workload.endswith(".toml") else {}
    if not fields:
        fields["workload"] = split_list(workload)
    listed = {
        "engine": engine, "strategy": strategy, "layout": layout, "batch": batch, "size": size,
        "examples": examples, "hosts": hosts, "link": link,
        "latency": latency, "cpus": cpus, "seed": seed, "eval_every": eval_every,
        "checkpoint_every": checkpoint_every, "backup": backup, "on_failure": on_failure, "restarts": restarts,
    }  # fmt: skip
    fields |= {key: split_list(value) for key, value in listed.items() if value is not None}
    plain = {"stop": stop, "fault": fault, "repeat": repeat, "name": name, "runs": runs}
    fields |= {key: value for key, value in plain.items() if value is not None}
    fields |= assignments(set_ or [])
    request = experiment(fields)

    if dry_run:
        output().print(plan_table(pipeline.plan(request)))
        return 0

    console, results, sweep = messages(), [], SweepState()

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    def on_result(result: Result, skipped: bool) -> None:
        results.append(result)
        sweep.on_result(result, skipped)
        if json:
            print(encode(result).decode(), flush=True)
        if result.traceback and not skipped:
            console.print(result.traceback.rstrip(), markup=False, highlight=False, soft_wrap=True)
        note = "done before" if skipped else result.status
        console.print(f"  {result.run}: {note}" + (f", {result.reason}" if result.reason else ""), markup=False)

    with ExitStack() as stack:
        view: pipeline.View = partial(live.show, console)
        if metrics_port is not None:
            from paceline.metrics.serve import serving

            say(f"metrics: {stack.enter_context(serving(sweep, metrics_port))}")
            view = pipeline.together(view, sweep.view)
        made = pipeline.run(request, view=view, on_result=on_result, say=say)
    if not json:
        output().print(details(made[0]) if len(made) == 1 else comparison_view(compare(made)))
    return max(EXIT[result.status] for result in made)
