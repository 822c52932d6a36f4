"""paceline export: write runs in the format of another program."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, TEXT, Runs


def export(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps),
    ],
    format: Annotated[
        str,
        typer.Option(
            metavar=TEXT,
            help="perfetto (a trace for ui.perfetto.dev), mlflow, wandb (offline), or llm (a text for assistants).",
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="perfetto: file (default: RUN.perfetto.json); llm: file (default: stdout); wandb: directory (default: "
            "the current one); mlflow: address or directory (default: MLFLOW_TRACKING_URI, else mlruns).",
        ),
    ] = None,
    project: Annotated[
        str, typer.Option(metavar=TEXT, help="mlflow, wandb: name of the experiment or project.")
    ] = "paceline",
    from_: Annotated[
        str | None, typer.Option("--from", metavar=TEXT, help="perfetto: begin after this time of training, e.g. 10s.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar=TEXT, help="perfetto: end after this time of training, e.g. 20s.")
    ] = None,
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Write runs for Perfetto, MLflow, W&B or assistants.

    All hosts of a run are in one trace, or in one run of MLflow or W&B.
    """
    from pathlib import Path

    from paceline.cli.console import messages
    from paceline.errors import printable
    from paceline.exports.write import Request, export_runs, parse_period
    from paceline.store.paths import find_runs
    from paceline.terminal.working import working

    request = Request(out=out, project=project, period=parse_period(from_, to))
    selected = find_runs(Path(runs), run)
    with working(messages(), f"writing {format}"):
        lines = export_runs(selected, format, request)
    for line in lines:
        print(printable(line))
    return 0
