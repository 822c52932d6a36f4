"""paceline doctor: what works here, and what is left over from a crash."""

from typing import Annotated

import typer

_REACH = (
    "TensorFlow's servers listen on every interface, gloo's (torch allreduce) on the host's own address, and both let\n"
    "  anyone in. On `local` that is this machine: train where nobody untrusted can reach it, or use netns.\n"
    "  The torch parameter server listens on the host's own address and admits only the run's key; on `local`, nowhere."
)


def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what crashed runs left behind.")] = False,
) -> int:
    """Check engines, hosts and data on this machine."""
    import os
    import platform

    from paceline.cli.console import output
    from paceline.data.registry import presence
    from paceline.engines.registry import ENGINES
    from paceline.hosts.capabilities import capabilities
    from paceline.hosts.netns import leftovers

    say = output().print

    def line(works: bool, name: str, detail: str) -> None:
        mark = "[green]ok[/]" if works else "[yellow]--[/]"
        say(f"{mark}  [bold]{name:<18}[/] ", end="")
        say(detail, markup=False, soft_wrap=True)

    line(True, "python", f"{platform.python_version()} on {platform.system()}, {os.cpu_count()} cores")
    for name, engine in ENGINES.items():
        line(engine.installed, f"engine {name}", engine.version or f"not installed: pip install 'paceline[{name}]'")
    for ability in capabilities():
        line(ability.works, ability.name, ability.detail)
    for name, (works, detail) in presence().items():
        line(works, f"data {name}", detail)
    left = leftovers.find()
    if left and clean:
        for removed in leftovers.clean(left):
            line(True, "cleaned", removed)
    for one in leftovers.find():
        line(False, "cleanup", f"left over: {one}; remove it with paceline doctor --clean")
    if not left:
        line(True, "cleanup", "nothing left over")
    say(f"\nnote  {_REACH}", markup=False)
    return 0
