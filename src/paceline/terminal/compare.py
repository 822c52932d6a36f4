"""Draws the comparison of several runs."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from paceline.analyze.comparison import Comparison
from paceline.analyze.metrics import (
    ACCURACY,
    EXAMPLES,
    EXAMPLES_TO_TARGET,
    EXCHANGED,
    LOSS,
    MEMORY,
    STALENESS,
    TO_TARGET,
    TRAIN,
    UPDATES,
    exchanged_mb_per_update,
    informative_metrics,
)
from paceline.analyze.repeats import Group, setting, varied
from paceline.analyze.shared_conditions import conditions
from paceline.analyze.sync_async import steps_per_worker
from paceline.present import numbers
from paceline.present.bottleneck import short_bottleneck
from paceline.present.labels import TIME_BY_PHASE, setting_label
from paceline.store.result import HostResult
from paceline.terminal.conclusions import conclusions
from paceline.terminal.fitting_table import FittingTable


def comparison_view(comparison: Comparison) -> RenderableType:
    """Metrics of all configurations, then their hosts, then the conclusions in words."""
    groups = comparison.groups
    parts: list[RenderableType] = [Text("\n".join(conditions(groups)), style="dim"), Text(), metrics_table(groups)]
    if any(group.ok for group in groups):
        parts += [Text(), hosts_table(groups)]
    return Stack(*parts, *conclusions(comparison))


def metrics_table(groups: Sequence[Group]) -> FittingTable:
    """One row per configuration."""
    differing = varied(groups) or ["strategy"]
    informative = informative_metrics(groups)
    metrics = [TO_TARGET, EXAMPLES_TO_TARGET, *([TRAIN] if TRAIN in informative else [])]
    metrics += [UPDATES, EXAMPLES, LOSS, ACCURACY, MEMORY]
    titles = ["runs", "examples/update", "learning rate", *[metric.title for metric in metrics]]
    titles += ["exchanged/update (MB)", EXCHANGED.title, STALENESS.title, "value", "bottleneck", "steps per worker"]
    show_lr = len({group.first.lr for group in groups}) > 1
    labels = [setting_label(name) for name in differing]
    table = FittingTable(labels, [[title] for title in titles], left_aligned=["bottleneck", "steps per worker"])
    for group in groups:
        table.add(
            [setting(group.first, name) for name in differing],
            [
                _run_count(group),
                numbers.amount(group.first.examples_per_update),
                f"{group.first.lr:g}" if show_lr and group.first.lr is not None else numbers.MISSING,
                *[metric.text(group) for metric in metrics],
                numbers.number(_exchanged_per_update(group)),
                EXCHANGED.text(group),
                STALENESS.text(group),
                numbers.exact(group.ok[0].final.value) if group.ok else numbers.MISSING,
                short_bottleneck([result.verdict for result in group.ok]),
                " ".join(f"{spread.median:,.0f}" for spread in steps_per_worker(group).values()) or numbers.MISSING,
            ],
        )
    return table


def _exchanged_per_update(group: Group) -> float | None:
    """MB that all workers sent and received, as the median over the repeats; None if it is not known."""
    spread = group.spread(exchanged_mb_per_update)
    return spread.median if spread else None


def hosts_table(groups: Sequence[Group]) -> FittingTable:
    """One row per host of each configuration: the phases of its workers and its resource use, as medians."""
    differing = varied(groups) or ["strategy"]
    table = FittingTable(
        [*[setting_label(name) for name in differing], "host", "tasks"],
        [
            [TIME_BY_PHASE],
            ["cores used", "busiest core", "memory (MB)"],
            ["in (MB/s)", "out (MB/s)", "loopback (MB/s)"],
        ],
        left_aligned=[TIME_BY_PHASE],
    )
    for group in groups:
        for number, host in enumerate(group.ok[0].hosts if group.ok else ()):
            names = [setting(group.first, name) if number == 0 else "" for name in differing]
            cells = _host_cells([result.hosts[number] for result in group.ok], group)
            table.add([*names, host.host, " ".join(host.tasks)], cells)
    return table


def _host_cells(hosts: Sequence[HostResult], group: Group) -> list[str]:
    phases: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            if worker.host == hosts[0].host:
                for phase, seconds in worker.phases.items():
                    phases[phase] = phases.get(phase, 0.0) + seconds
    return [
        numbers.phase_shares(phases, most=3),
        numbers.number(median(host.cpu_cores_mean for host in hosts)),
        numbers.percent(median(host.busiest_core_max for host in hosts)),
        numbers.number(median(host.memory_mb_max for host in hosts)),
        numbers.traffic(median(host.external.rx_mb_s_mean for host in hosts)),
        numbers.traffic(median(host.external.tx_mb_s_mean for host in hosts)),
        numbers.traffic(median(host.loopback.rx_mb_s_mean for host in hosts)),
    ]


def _run_count(group: Group) -> str:
    usable, total = len(group.ok), len(group.results)
    return str(total) if usable == total else f"{usable} of {total}"
