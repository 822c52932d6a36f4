"""Shell completion: install the completion script, and return the values that completion offers.

The shell starts paceline at each press of the Tab key. To be fast, the functions that return values import what they
need when they are called, and no module that loads a framework.
"""

from collections.abc import Iterable
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script, install  # type: ignore[attr-defined]

from paceline.errors import PacelineError, UsageError

_PROGRAM = "paceline"
_INSTALL, _SHOW = "--install-completion", "--show-completion"
_SHELLS = ("bash", "zsh", "fish")
_METAVAR = f"[{'|'.join(_SHELLS)}]"

InstallCompletion = Annotated[
    str | None,
    typer.Option(_INSTALL, metavar=_METAVAR, help="Install shell completion for the current or the named shell."),
]
ShowCompletion = Annotated[
    str | None,
    typer.Option(_SHOW, metavar=_METAVAR, help="Print the completion script for the current or the named shell."),
]


def prepare(arguments: list[str]) -> list[str]:
    """Register the shells with Typer, and return the arguments with the current shell added if it is needed.

    It is needed if a completion option names no shell. Typer's own options either detect the shell or require its name;
    these accept a name and detect the shell without one.
    """
    completion_init()
    if arguments in ([_INSTALL], [_SHOW]):
        return [*arguments, _current_shell(arguments[0])]
    return arguments


def install_script(shell: str) -> None:
    """Write the completion script to the user's home directory and print its path."""
    _, path = install(shell=_supported(shell), prog_name=_PROGRAM)
    print(f"{shell} completion is installed in {path}: open a new terminal to use it")


def show_script(shell: str) -> None:
    """Print the completion script, for users who install it themselves."""
    variable = f"_{_PROGRAM.upper()}_COMPLETE"
    print(get_completion_script(prog_name=_PROGRAM, complete_var=variable, shell=_supported(shell)))


def _supported(shell: str) -> str:
    if shell not in _SHELLS:
        raise UsageError(f"shell '{shell}' has no completion: choose from {', '.join(_SHELLS)}")
    return shell


def _current_shell(option: str) -> str:
    import shellingham

    try:
        name: str = shellingham.detect_shell()[0]
    except shellingham.ShellDetectionFailure:
        raise UsageError(f"cannot detect the current shell: name it, e.g. paceline {option} bash") from None
    return name


def engines(incomplete: str) -> list[str]:
    from paceline.engines import registry

    return _listed(incomplete, [name for name, engine in registry.engines().items() if not engine.runs_scripts])


def strategies(incomplete: str) -> list[str]:
    from paceline.engines.registry import engines as installed_engines
    from paceline.strategies.registry import strategies as installed

    of_scripts = {name for engine in installed_engines().values() if engine.runs_scripts for name in engine.strategies}
    return _listed(incomplete, [name for name in installed() if name not in of_scripts])


def layouts(incomplete: str) -> list[str]:
    """The layouts that have a name. Layouts such as `pw w` contain a space, and shells complete only single words."""
    from paceline.plan.layout import NAMED_WORKERS

    return _listed(incomplete, NAMED_WORKERS)


def hosts(incomplete: str) -> list[str]:
    from paceline.hosts.registry import host_kinds

    return _listed(incomplete, host_kinds())


def workloads(incomplete: str) -> list[str]:
    from paceline.workloads.registry import WORKLOADS

    return _listed(incomplete, WORKLOADS)


def statuses(incomplete: str) -> list[str]:
    from paceline.analyze.listing import STATUSES

    return _listed(incomplete, STATUSES)


def recipes() -> list[str]:
    """The names of recipes and of reports, and `all`."""
    from paceline.recipes.recipe import recipes as all_recipes
    from paceline.recipes.recipe import reports

    return [*all_recipes(), *reports(), "all"]


def runs(ctx: typer.Context) -> list[str]:
    """`latest` and the ids of the runs in the directory that `--runs` names, the newest first."""
    ids = _run_ids(ctx)
    return ["latest", *ids] if ids else []


def runs_and_sweeps(ctx: typer.Context) -> list[str]:
    """The values of `runs`, and the names of the sweeps that have several runs."""
    ids = _run_ids(ctx)
    names = [run.rpartition("-")[0] for run in ids]
    sweeps = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    return ["latest", *sweeps, *ids] if ids else []


def _run_ids(ctx: typer.Context) -> list[str]:
    from pathlib import Path

    from paceline.cli.options import DEFAULT_RUNS
    from paceline.store.paths import all_runs

    try:
        ids = [paths.id for paths in all_runs(Path(ctx.params.get("runs") or DEFAULT_RUNS))]
    except (PacelineError, OSError):
        # A message would appear in the middle of the command that the user is typing.
        return []
    return ids[::-1]


def _listed(incomplete: str, values: Iterable[str]) -> list[str]:
    """The values that may complete the last item of a comma-separated list; an item is not offered twice."""
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{value}" for value in values if value not in before.split(",")]
