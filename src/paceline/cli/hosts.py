"""paceline hosts: look at the machines of a kind of hosts, and install what they need."""

from typing import TYPE_CHECKING, Annotated

import typer

from paceline.errors import HostError, PlanError, unknown

if TYPE_CHECKING:
    from paceline.hosts.base import HostProvider

app = typer.Typer(help="Check and prepare the machines that a run can use.", rich_markup_mode=None)
Hosts = Annotated[str, typer.Argument(metavar="KIND:ARGUMENT", help="As for `paceline run --hosts`: ssh:hosts.toml.")]


@app.command("check")
def check(
    hosts: Hosts,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per host.")] = False,
) -> int:
    """Say what each machine has, and measure the links between them."""
    import json
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from paceline.cli.console import output
    from paceline.control.inspect_hosts import inspect_hosts, inspect_links
    from paceline.engines.registry import engines
    from paceline.hosts.base import HostRequest
    from paceline.terminal.hosts_table import host_rows, print_hosts

    provider = _provider(hosts)
    names = provider.machines() or ["this machine"]
    requests = [HostRequest(name=f"h{number}") for number in range(1, len(names) + 1)]
    provider.check(requests)
    with TemporaryDirectory(prefix="paceline-check-") as folder, provider.open("check", requests) as opened:
        inspected = inspect_hosts(opened, engines(), Path(folder))
        rows = host_rows(inspected, names, hosts)
        all_ready = not any(row.problem for row in rows)
        links, problem = inspect_links(opened, Path(folder)) if all_ready and len(rows) > 1 else ([], None)
    if as_json:
        for row in rows:
            print(json.dumps(row.as_json(links)))
    else:
        print_hosts(rows, links, output())
    if problem:
        raise HostError(problem)
    return 0 if all_ready else 1


@app.command("prepare")
def prepare(
    hosts: Hosts,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="TEXT", help="Engines to install, separated by commas; default: those of this machine."
        ),
    ] = "",
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Send the packages of this machine, for machines without access to PyPI."),
    ] = False,
) -> int:
    """Install Paceline and engines on each machine, in a virtual environment below ~/.cache/paceline."""
    from paceline.cli.console import messages
    from paceline.engines.registry import engines
    from paceline.hosts.prepare import Packages
    from paceline.hosts.prepare import prepare as install

    known = engines()
    chosen = [name.strip() for name in engine.split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            raise PlanError(unknown("engine", name, known))
    names = tuple(chosen or [name for name, descriptor in known.items() if descriptor.installed])
    shells = _provider(hosts).shells()
    console = messages()
    install(shells, Packages(engines=names, offline=offline), lambda line: console.print(line, markup=False))
    print(f"{len(shells)} of {len(shells)} machines are ready: try `paceline hosts check {hosts}`")
    return 0


def _provider(hosts: str) -> "HostProvider":
    from paceline.hosts.registry import host_kinds
    from paceline.spec.hosts import HostsChoice

    kind, argument = HostsChoice.parse(hosts)
    if kind not in host_kinds():
        raise HostError(unknown("kind of hosts", kind, host_kinds()))
    return host_kinds()[kind].open_provider(argument)
