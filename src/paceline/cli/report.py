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
        str, typer.Option(metavar=TEXT, help="html, md, csv or json; a comma-separated list writes several files.")
    ] = "html",
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Write a report of runs: an HTML page, or tables.

    The page shows best configurations, bottlenecks, charts and tables, in one file that needs no network.
    """
    from pathlib import Path

    from paceline.cli.console import messages, print_message
    from paceline.errors import printable
    from paceline.report.write import parse_formats, write_report
    from paceline.store.paths import are_several_sweeps, find_runs
    from paceline.terminal.working import working

    formats = parse_formats(format)
    selected = find_runs(Path(runs), run)
    by_sweep = are_several_sweeps(Path(runs), run, selected)
    names = list(dict.fromkeys(run))
    title = selected[0].id if len(selected) == 1 else Path(names[0]).name if len(names) == 1 else "comparison"
    target = Path(out) if out else None
    with working(messages(), "writing the report") as advance:
        written = write_report(title, selected, target, formats, advance, by_sweep=by_sweep, on_message=print_message)
    for path in written:
        print(printable(str(path)))
    return 0
