"""paceline run: train, measure, and show the result."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import FLAGS, SET_ONLY, AsJson, DryRun, given, spec_flags

if TYPE_CHECKING:
    from paceline.spec.experiment import Experiment
    from paceline.store.result import Result

EXIT = {"ok": 0, "failed": 1, "diverged": 1, "aborted": 130}


@spec_flags(*FLAGS)
def run(
    workload: Annotated[
        str,
        typer.Argument(
            help="A workload that `paceline workloads` lists, your own file or module, or a spec.toml.",
            autocompletion=completion.workloads,
        ),
    ],
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help=f"Any other option, name=value: {', '.join(SET_ONLY)}. May be given several times."),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve live metrics for Prometheus on 127.0.0.1 at this port; 0 is any free one.")
    ] = None,
    dry_run: DryRun = False,
    json: AsJson = False,
    **flags: Any,
) -> int:
    """Train WORKLOAD on a cluster and measure it. Comma-separated lists make a sweep of all combinations."""
    request = _request(workload, flags, set_ or [])
    if dry_run:
        return _show_plan(request)
    results = _run(request, json=json, metrics_port=metrics_port)
    if not json:
        _show(results)
    return max(EXIT[result.status] for result in results)


def _request(workload: str, flags: dict[str, Any], pairs: list[str]) -> "Experiment":
    """The spec file's fields if there is one, then the flags, then `--set`: the last one counts."""
    from paceline.spec.load import assignments, experiment, load_toml

    fields = load_toml(Path(workload)) if workload.endswith(".toml") else {"workload": workload}
    return experiment(fields | given(flags) | assignments(pairs))


def _show_plan(request: "Experiment") -> int:
    from paceline import pipeline
    from paceline.cli.console import output
    from paceline.terminal.plan import plan_table

    output().print(plan_table(pipeline.plan(request)))
    return 0


def _run(request: "Experiment", *, json: bool, metrics_port: int | None) -> "list[Result]":
    """Make the runs; their progress and how each ended go to stderr, their JSON to stdout."""
    from paceline import pipeline
    from paceline.cli.console import messages
    from paceline.metrics.sweep_state import SweepState
    from paceline.store.result import encode
    from paceline.terminal import live

    console, sweep = messages(), SweepState()

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def on_result(result: "Result", skipped: bool) -> None:
        sweep.on_result(result, skipped)
        if json:
            print(encode(result).decode(), flush=True)
        if result.traceback and not skipped:
            say(result.traceback.rstrip())
        note = "done before" if skipped else result.status
        console.print(f"  {result.run}: {note}" + (f", {result.reason}" if result.reason else ""), markup=False)

    with ExitStack() as stack:
        view: pipeline.View = partial(live.show, console)
        if metrics_port is not None:
            from paceline.metrics.serve import serving

            say(f"metrics: {stack.enter_context(serving(sweep, metrics_port))}")
            view = pipeline.together(view, sweep.view)
        return pipeline.run(request, view=view, on_result=on_result, say=say)


def _show(results: "list[Result]") -> None:
    from paceline.analyze.comparison import compare
    from paceline.cli.console import output
    from paceline.terminal.compare import comparison_view
    from paceline.terminal.details import details

    output().print(details(results[0]) if len(results) == 1 else comparison_view(compare(results)))
