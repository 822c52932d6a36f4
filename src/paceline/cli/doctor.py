"""paceline doctor: which engines, hosts and data sets work on this machine, and what crashed runs left behind."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.errors import HostError, one_line

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
    from paceline.engines.import_check import import_errors
    from paceline.engines.registry import engine_plugins
    from paceline.hosts.capabilities import capabilities
    from paceline.hosts.registry import host_plugins
    from paceline.strategies.registry import strategy_plugins

    say = output().print

    def line(works: bool, name: str, detail: str) -> None:
        mark = "[green]ok[/]" if works else "[yellow]--[/]"
        say(f"{mark}  [bold]{name:<18}[/] ", end="")
        say(detail, markup=False, soft_wrap=True)

    engines = engine_plugins()
    line(True, "python", f"{platform.python_version()} on {platform.system()}, {os.cpu_count()} cores")
    broken_modules = import_errors(engine.required_module for engine in engines.found.values() if engine.installed)
    for name, engine in engines.found.items():
        if reason := broken_modules.get(engine.required_module):
            detail = f"{engine.version or ''} is installed, but importing it fails ({reason})".lstrip()
            line(False, f"engine {name}", f"{detail}: repair or reinstall its packages")
            continue
        line(engine.installed, f"engine {name}", engine.version or f"not installed: {engine.install_hint}")
        for problem in engine.problems:
            line(False, f"engine {name}", problem)
        for hint in engine.hints:
            line(True, f"engine {name}", hint)
    for ability in capabilities():
        line(ability.works, ability.name, ability.detail)
    for kind, plugins in (("engine", engines), ("hosts", host_plugins()), ("strategy", strategy_plugins())):
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
    removed: list[str] = []
    left: list[str] = []
    for name, provider in _providers():
        try:
            removed += provider.clean() if clean else []
            left += provider.leftovers()
        except Exception as error:  # Of a plug-in: the other kinds of hosts must still be cleaned up.
            line(False, "cleanup", one_line(f"hosts {name}: {type(error).__name__}: {error}"))
    for text in removed:
        line(True, "cleaned", text)
    for text in left:
        line(False, "cleanup", f"left over: {text}; remove it with paceline doctor --clean")
    if not left and not removed:
        line(True, "cleanup", "nothing left over")


def _providers() -> "Iterator[tuple[str, HostProvider]]":
    """By kind, for kinds of hosts that need no argument: only such hosts leave something on this machine."""
    from paceline.hosts.registry import host_kinds

    for name, kind in host_kinds().items():
        with suppress(HostError):  # A kind that does not work here is listed as such, and has left nothing.
            if kind.argument is None:
                yield name, kind.open_provider()
