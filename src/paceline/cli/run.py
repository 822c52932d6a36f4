"""paceline run: train, measure, and show the result."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import FLAGS, SET_ONLY, TEXT, AsJson, DryRun, MetricsPort, Ui, given_fields, spec_flags

if TYPE_CHECKING:
    from paceline.pipeline import RunView
    from paceline.spec.experiment import Experiment
    from paceline.store.result import Result

EXIT = {"ok": 0, "failed": 1, "diverged": 1, "aborted": 130}
"""The exit code for each status of a run that began."""
_REFUSED = 2
"""The exit code for a run whose workload was found to be wrong before training began."""


def exit_code(results: "Sequence[Result]") -> int:
    """The exit code of a command that made these runs."""
    return max(_REFUSED if result.refused else EXIT[result.status] for result in results)


def refusal_line(result: "Result") -> str:
    """The error line for a run whose workload was found to be wrong before training began."""
    return f"paceline: {result.title}: {result.reason}"


@spec_flags(*FLAGS)
def run(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A name that `paceline workloads` lists, path/to/file.py, package.module:name, or spec.toml.",
            autocompletion=completion.workloads,
        ),
    ],
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar=TEXT,
            help=f"Any other option, name=value: {', '.join(SET_ONLY)}. May be given several times.",
        ),
    ] = None,
    metrics_port: MetricsPort = None,
    ui: Ui = False,
    dry_run: DryRun = False,
    json: AsJson = False,
    **flags: Any,
) -> int:
    """Train WORKLOAD on a cluster and measure it.

    An option that takes a list (N,..) makes a sweep: a run for each value, and for each combination of values.
    """
    from paceline.preload import prepared
    from paceline.spec.sweep import expand

    experiment = _read_experiment(workload, flags, set_ or [])
    if dry_run:
        return show_plan(experiment)
    # The framework is imported while this process imports the pipeline.
    with watched(experiment.runs, ui=ui), prepared(expand(experiment)):
        return make_and_show_runs(experiment, json=json, metrics_port=metrics_port)


def _read_experiment(workload: str, flags: dict[str, Any], assignments: list[str]) -> "Experiment":
    """The experiment of the spec file or workload. Flags override the file, and `--set` overrides both."""
    from paceline.spec.load import experiment, load_toml, parse_assignments

    fields = load_toml(Path(workload)) if workload.endswith(".toml") else {"workload": workload}
    return experiment(fields | given_fields(flags) | parse_assignments(assignments))


def show_plan(experiment: "Experiment") -> int:
    from paceline import pipeline
    from paceline.cli.console import output
    from paceline.terminal.plan import plan_table

    output().print(plan_table(pipeline.plan(experiment)))
    return 0


@contextmanager
def watched(runs: str, *, ui: bool) -> Iterator[None]:
    """Serve the page while the context is open. On a terminal it stays until Ctrl-C."""
    if not ui:
        yield
        return
    import threading

    from paceline.cli.console import messages, print_message
    from paceline.ui.beside import page_beside

    with page_beside(runs) as address:
        print_message(f"page: {address}")
        yield
        if messages().is_terminal:
            print_message("the page is still there: press Ctrl-C to end")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()


def make_and_show_runs(experiment: "Experiment", **options: Any) -> int:
    """Make the runs and show their results, unless they are printed as JSON; returns the exit code."""
    results = make_runs(experiment, **options)
    begun = [result for result in results if not result.refused]
    if begun and not options["json"]:
        show_results(begun)
    return exit_code(results)


def make_runs(
    experiment: "Experiment", *, json: bool, metrics_port: int | None, more_views: "Sequence[RunView]" = ()
) -> "list[Result]":
    """Make the runs. Progress and the status of each go to stderr, JSON results to stdout."""
    from paceline import pipeline
    from paceline.cli.console import messages
    from paceline.metrics.sweep_state import SweepState
    from paceline.store.result import encode
    from paceline.terminal import live
    from paceline.terminal.sweep_pace import SweepPace
    from paceline.terminal.working import working

    console, sweep = messages(), SweepState()

    def on_message(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def on_result(result: "Result", skipped: bool) -> None:
        sweep.on_result(result, skipped)
        if json:
            print(encode(result).decode(), flush=True)
        if result.refused:
            on_message(refusal_line(result))
            return
        if result.traceback and not skipped:
            on_message(result.traceback.rstrip())
        status = "already done" if skipped else result.status
        console.print(f"  {result.run}: {status}" + (f", {result.reason}" if result.reason else ""), markup=False)

    with ExitStack() as stack:
        view: pipeline.RunView = partial(live.show, console, pace=SweepPace())
        if metrics_port is not None:
            from paceline.metrics.serve import serving

            on_message(f"metrics: {stack.enter_context(serving(sweep, metrics_port))}")
            view = pipeline.combine_views(view, sweep.view)
        view = pipeline.combine_views(view, *more_views)
        return pipeline.run(experiment, view, on_result, on_message, show_work=partial(working, console))


def show_results(results: "list[Result]") -> None:
    from paceline.analyze.comparison import compare
    from paceline.cli.console import output
    from paceline.terminal.compare import comparison_view
    from paceline.terminal.details import details

    view = details(results[0]) if len(results) == 1 else comparison_view(compare(results))
    output().print(view, crop=False)
