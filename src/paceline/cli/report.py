"""paceline report: runs as a page to read, keep and hand on."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, Runs


def report(
    run: Annotated[
        list[str], typer.Argument(help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps)
    ],
    out: Annotated[str | None, typer.Option(help="File to write (default: NAME-report.html here).")] = None,
    format: Annotated[str, typer.Option(help="html, md, csv, json; a list writes several.")] = "html",
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Write a report: best configurations, bottlenecks, charts and tables, in one file that needs no network."""
    from pathlib import Path

    from paceline.report.write import parse_formats, write_report
    from paceline.store.paths import find_runs

    formats = parse_formats(format)
    found = find_runs(Path(runs), run)
    asked = list(dict.fromkeys(run))
    title = found[0].id if len(found) == 1 else Path(asked[0]).name if len(asked) == 1 else "comparison"
    for path in write_report(title, found, Path(out) if out else None, formats):
        print(path)
    return 0
