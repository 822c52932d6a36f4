"""paceline doctor: which engines, hosts and data sets work on this machine, and what crashed runs left behind."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from paceline.hosts.base import HostProvider

Line = Callable[[bool, str, str], None]
"""Prints whether something works, its name, and details."""


def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what crashed runs left behind.")] = False,
) -> int:
    """Check engines, hosts and data on this machine."""
    import os
    import platform

    from paceline.cli.console import output
    from paceline.data.registry import presence
    from paceline.engines.registry import engine_plugins
    from paceline.hosts.capabilities import capabilities
    from paceline.hosts.registry import host_plugins

    say = output().print

    def line(works: bool, name: str, detail: str) -> None:
        mark = "[green]ok[/]" if works else "[yellow]--[/]"
        say(f"{mark}  [bold]{name:<18}[/] ", end="")
        say(detail, markup=False, soft_wrap=True)

    engines, hosts = engine_plugins(), host_plugins()
    line(True, "python", f"{platform.python_version()} on {platform.system()}, {os.cpu_count()} cores")
    for name, engine in engines.found.items():
        line(engine.installed, f"engine {name}", engine.version or f"not installed: {engine.install_hint}")
    for ability in capabilities():
        line(ability.works, ability.name, ability.detail)
    for kind, plugins in (("engine", engines), ("hosts", hosts)):
        for broken in plugins.broken:
            line(False, f"{kind} {broken.name}", f"not used, from package {broken.distribution}: {broken.reason}")
    for name, (works, detail) in presence().items():
        line(works, f"data {name}", detail)
    _leftovers(line, clean=clean)
    notes = [f"{name}: {engine.listens}" for name, engine in engines.found.items() if engine.listens]
    say("\nWhat listens during a run: start it only where nobody untrusted can reach these addresses.", markup=False)
    for note in notes:
        say(f"  {note}", markup=False, soft_wrap=True)
    return 0


def _leftovers(line: Line, *, clean: bool) -> None:
    """List what crashed runs left on this machine, or remove it."""
    removed = [text for provider in _providers() for text in provider.clean()] if clean else []
    for text in removed:
        line(True, "cleaned", text)
    left = [text for provider in _providers() for text in provider.leftovers()]
    for text in left:
        line(False, "cleanup", f"left over: {text}; remove it with paceline doctor --clean")
    if not left and not removed:
        line(True, "cleanup", "nothing left over")


def _providers() -> "Iterator[HostProvider]":
    """Of every kind of hosts that needs no argument: only such hosts leave something on this machine."""
    from paceline.errors import HostError
    from paceline.hosts.registry import host_kinds

    for kind in host_kinds().values():
        with suppress(HostError):  # A kind that does not work here is listed as such, and has left nothing.
            if kind.argument is None:
                yield kind.open_provider()
