"""paceline bench-collectives: measure collective operations between hosts."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.errors import SpecError

if TYPE_CHECKING:
    from paceline.plan.place import RunPlan
    from paceline.train.collectives import Measurement

_MOST_WORKERS = 8
TEXT = "TEXT"


def bench_collectives(
    hosts: Annotated[
        str, typer.Option(metavar=TEXT, help="As for `paceline run`: local, netns, ssh:hosts.toml.")
    ] = "local",
    workers: Annotated[
        str, typer.Option(metavar=TEXT, help="Numbers of workers from 2 to 8, one per host: 2,4.")
    ] = "2",
    max_size: Annotated[
        str,
        typer.Option(
            "--max-size", metavar=TEXT, help="Largest size, from 1kB to 1GB; each size is about 4 times the last."
        ),
    ] = "16MB",
    seconds: Annotated[
        float, typer.Option(metavar="NUMBER", help="How long to repeat each operation with each size.")
    ] = 0.5,
    link: Annotated[str | None, typer.Option(metavar=TEXT, help="Rate of each host's link (netns): 100mbit.")] = None,
    latency: Annotated[str | None, typer.Option(metavar=TEXT, help="Delay of what a host sends (netns): 1ms.")] = None,
    trusted_network: Annotated[
        bool, typer.Option("--trusted-network", help="As for `paceline run`: gloo accepts any connection.")
    ] = False,
    pictures: Annotated[str | None, typer.Option(metavar=TEXT, help="Directory for a picture, as PNG and SVG.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per measurement.")] = False,
) -> int:
    """Measure collective operations between hosts.

    Latency and bandwidth of all-reduce and broadcast (gloo) and of pull and push (parameter server), by size and number
    of workers. One worker is on each host, and the server on the host of the first.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import msgspec

    from paceline import units
    from paceline.cli.console import messages, output
    from paceline.control.collectives import measure_collectives
    from paceline.hosts.registry import host_provider
    from paceline.terminal.collectives_table import collectives_table
    from paceline.train.collectives import Order, smaller_sizes

    if not 0.01 <= seconds <= 60:
        raise SpecError(f"seconds {seconds:g}: must be from 0.01 to 60")
    order = Order(smaller_sizes(units.size_bytes(max_size, "max-size", 10**3, 10**9)), seconds)
    if pictures is not None:
        from paceline.pictures.draw import check_available

        check_available()
    network = {"hosts": hosts, "link": link, "latency": latency, "trusted_network": trusted_network}
    plans = _plans([_count(word) for word in workers.split(",")], network)
    found: list[Measurement] = []
    for plan in plans:
        messages().print(f"measuring among {len(plan.workers)} workers on {hosts} hosts", style="dim", highlight=False)
        with TemporaryDirectory(prefix="paceline-collectives-") as folder:
            measured = measure_collectives(plan, host_provider(hosts), order, Path(folder))
        found += measured
        for one in measured if json else ():
            print(msgspec.json.encode(one).decode(), flush=True)
    if not json:
        output().print(collectives_table(found), crop=False)
    if pictures is not None:
        _write_picture(found, Path(pictures), " · ".join(filter(None, (f"{hosts} hosts", link, latency))))
    return 0


def _count(word: str) -> int:
    word = word.strip()
    if not (word.isascii() and word.isdigit() and 2 <= int(word) <= _MOST_WORKERS):
        raise SpecError(f"workers '{word}': must be numbers from 2 to {_MOST_WORKERS}, e.g. 2,4")
    return int(word)


def _plans(counts: "list[int]", network: "dict[str, Any]") -> "list[RunPlan]":
    """A plan for each number of workers, with a server on the first host; an error if gloo may not be used there."""
    from paceline.engines.registry import engines
    from paceline.errors import PlanError
    from paceline.pipeline import plan
    from paceline.spec.load import experiment

    able = {name: engine for name, engine in engines().items() if engine.collectives}
    engine = next((name for name, engine in able.items() if engine.installed), None)
    if engine is None:
        hints = " or ".join(engine.install_hint for engine in able.values())
        raise PlanError(f"no engine that measures collective operations is installed: {hints}")
    given = {name: value for name, value in network.items() if value} | {"workload": "matmul", "engine": engine}
    words = [["w"] * count for count in counts]
    plan(experiment({**given, "strategy": "allreduce", "layout": [" ".join(layout) for layout in words]}))
    layouts = ["p" + " ".join(layout) for layout in words]
    return plan(experiment({**given, "strategy": "ps-async", "layout": layouts, "workload": "logreg"}))


def _write_picture(found: "list[Measurement]", directory: "Any", title: str) -> None:
    from paceline.cli.console import messages
    from paceline.pictures.collective_figures import collective_figure
    from paceline.pictures.draw import SUFFIXES, write_figures

    for path in write_figures([collective_figure(found, title)], directory, "bench", SUFFIXES):
        messages().print(f"wrote {path}", highlight=False)
