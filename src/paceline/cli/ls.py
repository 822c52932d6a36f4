"""paceline ls: list the runs in a directory."""

from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, NUMBER, TEXT, AsJson, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paceline.analyze.listing import ListedRun


def ls(
    limit: Annotated[
        int | None, typer.Option(metavar=NUMBER, min=1, help="List only this many runs, the newest.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="Only runs with this status: ok, failed, diverged, aborted or running; or a comma-separated list.",
            autocompletion=completion.statuses,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT, help="Only runs of this workload, or of a list.", autocompletion=completion.workloads
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar=TEXT, help="Only runs with this engine, or of a list.", autocompletion=completion.engines),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT, help="Only runs with this strategy, or of a list.", autocompletion=completion.strategies
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar=TEXT, help="Only runs with this tag, or with one of a list.")
    ] = None,
    name: Annotated[str, typer.Option(metavar=TEXT, help="Only runs whose id contains this text.")] = "",
    since: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="Only runs started since then: an age (30m, 2h, 3d, 1w) or a date (2026-11-17, with a time).",
        ),
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    json: AsJson = False,
) -> int:
    """List the runs, the newest last."""
    from datetime import UTC, datetime
    from pathlib import Path

    from paceline.analyze.listing import RunFilter, newest, parse_since
    from paceline.cli.console import output
    from paceline.store.result import encode
    from paceline.terminal.run_list import RunList

    wanted = RunFilter(
        status=_items(status),
        workload=_items(workload),
        engine=_items(engine),
        strategy=_items(strategy),
        tag=_items(tag),
        name=name,
        since=parse_since(since, datetime.now(UTC)) if since is not None else None,
    )
    listed = list(newest(_newest_first(Path(runs)), wanted, limit))[::-1]
    if json:
        for run in listed:
            if run.result:
                print(encode(run.result).decode())
    elif listed:
        output().print(RunList(listed), crop=False)
    elif wanted == RunFilter():
        _say(f"no runs in {runs}: start one with paceline run logreg, or name another directory with --runs")
    else:
        _say(f"no run in {runs} matches these options")
    return 0


def _say(line: str) -> None:
    """Print why the list is empty, on stdout if stderr is closed: an empty output would not say it."""
    from paceline.cli.console import messages
    from paceline.cli.streams import error_stream

    messages(error_stream()).print(line, markup=False, soft_wrap=True)


def _items(text: str | None) -> tuple[str, ...]:
    return tuple(item.strip() for item in (text or "").split(",") if item.strip())


def _newest_first(runs: "Path") -> "Iterator[ListedRun]":
    """The runs that can be read; a line is printed for each of the others."""
    from msgspec.structs import replace

    from paceline.analyze.listing import finished_run, run_in_progress
    from paceline.analyze.load import load_result
    from paceline.cli.console import messages
    from paceline.errors import StoreError
    from paceline.store.paths import all_runs
    from paceline.store.run import RunInProgress
    from paceline.store.tags import tags_of

    for paths in reversed(list(all_runs(runs))):
        try:
            try:
                result = load_result(paths)
                yield finished_run(replace(result, tags=tags_of(paths, result.tags)))
            except RunInProgress:
                yield run_in_progress(paths)
        except StoreError as error:
            messages().print(f"{error}", style="yellow", markup=False, soft_wrap=True)
