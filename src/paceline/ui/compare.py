"""Several runs side by side."""

from collections.abc import Sequence
from statistics import mean

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.analyze.repeats import Group, group_repeats, setting, varied
from paceline.store.result import HostResult, Result
from paceline.ui import format as fmt
from paceline.ui.sentence import sentence
from paceline.ui.tables import align_right, plain_table, status

_ALWAYS_SHOWN = ("engine", "strategy", "layout", "batch")


def comparison_view(results: Sequence[Result]) -> RenderableType:
    """Everything about several runs: the figures side by side, the hosts, and what it shows in words."""
    parts: list[RenderableType] = [comparison(results)]
    if any(result.status == "ok" for result in results):
        parts += [Text(), resources(results)]
    if words := sentence(results):
        parts += [Text(), Text(words)]
    return Stack(*parts)


def run_list(results: Sequence[Result]) -> Table:
    """One row a run."""
    table = plain_table(
        "run", "workload", "engine", "strategy", "layout", "batch", "status", "time", "updates/s", "accuracy"
    )
    align_right(table, "batch", "time", "updates/s", "accuracy")
    for result in results:
        table.add_row(
            result.run,
            result.title,
            result.engine,
            result.strategy,
            result.layout,
            fmt.batch(result.batch),
            status(result),
            fmt.seconds(result.train_s),
            fmt.number(result.updates_per_s),
            fmt.percent(result.final.accuracy),
        )
    return table


def comparison(results: Sequence[Result]) -> Table:
    """One row for all repeats of a configuration, as mean ± standard deviation."""
    groups = group_repeats(results)
    also = [name for name in varied(groups) if name not in _ALWAYS_SHOWN]
    values = ["value"] if any(result.final.value is not None for result in results) else []
    table = plain_table(
        "engine", "strategy", "layout", "batch", *also, "runs", "time s", "updates/s", "examples/s", "loss",
        "accuracy %", *values, "to target s", "steps per worker",
    )  # fmt: skip
    figures = ("time s", "updates/s", "examples/s", "loss", "accuracy %", *values, "to target s")
    align_right(table, "batch", "runs", *figures)
    for group in groups:
        first = group.first
        table.add_row(
            first.engine,
            first.strategy,
            first.layout,
            fmt.batch(first.batch),
            *[setting(first, name) for name in also],
            _counts(group),
            fmt.spread(group.spread(lambda r: r.train_s)),
            fmt.spread(group.spread(lambda r: r.updates_per_s)),
            fmt.spread(group.spread(lambda r: r.examples_per_s if r.batch else None)),
            fmt.spread(group.spread(lambda r: r.final.loss), digits=4),
            fmt.spread(group.spread(lambda r: r.final.accuracy), scale=100, digits=2),
            *[fmt.exact(first.final.value) for _ in values],
            fmt.spread(group.spread(lambda r: r.to_target_s)),
            fmt.steps_per_worker(group.ok[0] if group.ok else first),
        )
    return table


def resources(results: Sequence[Result]) -> Table:
    """One row a host of each configuration: where the workers' time went, and what the host did, as means."""
    groups = [group for group in group_repeats(results) if group.ok]
    apart = varied(groups) or ["strategy"]
    table = plain_table(
        *apart, "host", "tasks", "where its workers' time went", "cores", "busiest core", "memory MB",
        "external in / out MB/s", "loopback MB/s",
    )  # fmt: skip
    align_right(table, "cores", "busiest core", "memory MB", "loopback MB/s")
    for group in groups:
        for number, host in enumerate(group.ok[0].hosts):
            names = [setting(group.first, name) if number == 0 else "" for name in apart]
            table.add_row(
                *names, host.host, " ".join(host.tasks), *_host_figures([r.hosts[number] for r in group.ok], group)
            )
    return table


def _host_figures(hosts: Sequence[HostResult], group: Group) -> list[str]:
    phases: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            if worker.host == hosts[0].host:
                for phase, seconds in worker.phases.items():
                    phases[phase] = phases.get(phase, 0.0) + seconds
    return [
        fmt.phase_shares(phases, most=3),
        fmt.number(mean(host.cpu_cores_mean for host in hosts)),
        f"{mean(host.busiest_core_max for host in hosts):.0%}",
        fmt.number(mean(host.memory_mb_max for host in hosts)),
        f"{fmt.number(mean(host.external.rx_mb_s_mean for host in hosts))} / "
        f"{fmt.number(mean(host.external.tx_mb_s_mean for host in hosts))}",
        fmt.number(mean(host.loopback.rx_mb_s_mean for host in hosts)),
    ]


def _counts(group: Group) -> str:
    good, all_ = len(group.ok), len(group.results)
    return str(all_) if good == all_ else f"{good} of {all_} ok"
