"""paceline report: write a report of runs as an HTML page or in another format."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, TEXT, Runs


def report(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps),
    ],
    out: Annotated[
        str | None,
        typer.Option(metavar=TEXT, help="File to write (default: NAME-report.html in the current directory)."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar=TEXT,
            help="html, md, csv, json, or png and svg for pictures; a comma-separated list writes several files.",
        ),
    ] = "html",
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Write a report of runs: an HTML page, or tables.

    The page shows best configurations, bottlenecks, charts and tables, in one file that needs no network.
    """
    from pathlib import Path

    from paceline.cli.console import messages, print_message
    from paceline.errors import printable
    from paceline.pictures.run_pictures import PICTURES, write_run_pictures
    from paceline.report.write import parse_formats, write_report
    from paceline.store.paths import are_several_sweeps, find_runs
    from paceline.terminal.working import working

    formats = parse_formats(format, *PICTURES)
    selected = find_runs(Path(runs), run)
    by_sweep = are_several_sweeps(Path(runs), run, selected)
    names = list(dict.fromkeys(run))
    title = selected[0].id if len(selected) == 1 else Path(names[0]).name if len(names) == 1 else "comparison"
    target = Path(out) if out else None
    pages = [kind for kind in formats if kind not in PICTURES]
    suffixes = [kind for kind in formats if kind in PICTURES]
    with working(messages(), "writing the report") as advance:
        written = (
            write_report(title, selected, target, pages, advance, by_sweep=by_sweep, on_message=print_message)
            if pages
            else []
        )
        if suffixes:
            written += write_run_pictures(title, selected, target, suffixes, print_message)
    for path in written:
        print(printable(str(path)))
    return 0
