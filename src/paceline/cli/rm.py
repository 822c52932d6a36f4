"""paceline rm: delete runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.store.paths import RunPaths

_MOST_NAMED = 5


def rm(
    run: Annotated[
        list[str],
        typer.Argument(help="Runs, or names of sweeps: all of their runs.", autocompletion=completion.runs_and_sweeps),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Delete runs with all their files. Asks first, unless --yes is given."""
    from pathlib import Path

    from paceline.cli.console import print_message
    from paceline.store.paths import find_runs
    from paceline.store.remove import check_removable, remove_run

    selected = find_runs(Path(runs), run)
    for paths in selected:
        check_removable(paths)
    if not yes and not _confirmed(selected):
        print_message("nothing was deleted")
        return 1
    for paths in selected:
        remove_run(paths)
        print_message(f"deleted {paths.directory}")
    return 0


def _confirmed(selected: "Sequence[RunPaths]") -> bool:
    """Whether the user agrees; UsageError if there is no terminal to ask on."""
    import sys

    from paceline.cli.console import messages
    from paceline.errors import UsageError, printable

    names = [printable(str(paths.directory)) for paths in selected]
    what = "1 run" if len(names) == 1 else f"{len(names)} runs"
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(f"cannot ask whether to delete {what} ({shown}): give --yes to delete them")
    messages().print(f"delete {what}: {shown}? [y/N] ", end="", markup=False, soft_wrap=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
