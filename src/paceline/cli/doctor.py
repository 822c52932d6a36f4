"""paceline doctor: what works here, and what is left over from a crash."""

from typing import Annotated

import typer


def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what crashed runs left behind.")] = False,
) -> int:
    """Check engines, hosts and data on this machine."""
    from paceline.cli.console import output

    output().print("todo", clean)
    return 0
