"""paceline report: write a report of runs as an HTML page or in another format."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, Runs


def report(
    run: Annotated[
        list[str], typer.Argument(help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps)
    ],
    out: Annotated[
        str | None, typer.Option(help="File to write (default: NAME-report.html in the current directory).")
    ] = None,
    format: Annotated[
        str, typer.Option(help="html, md, csv or json; a comma-separated list writes several files.")
    ] = "html",
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Write a report: best configurations, bottlenecks, charts and tables, in one file that needs no network."""
    from pathlib import Path

    from paceline.report.write import parse_formats, write_report
    from paceline.store.paths import find_runs

    formats = parse_formats(format)
    selected = find_runs(Path(runs), run)
    names = list(dict.fromkeys(run))
    title = selected[0].id if len(selected) == 1 else Path(names[0]).name if len(names) == 1 else "comparison"
    for path in write_report(title, selected, Path(out) if out else None, formats):
        print(path)
    return 0
