"""Draws the comparison of several runs."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.analyze.comparison import Comparison
from paceline.analyze.metrics import ACCURACY, EXAMPLES, LOSS, MEMORY, TO_TARGET, TRAIN, UPDATES, informative_metrics
from paceline.analyze.repeats import Group, setting, varied
from paceline.analyze.sync_async import steps_per_worker
from paceline.present import numbers
from paceline.present.labels import REPEATS_LEGEND, TIME_BY_PHASE, setting_label
from paceline.store.result import HostResult, Result
from paceline.terminal.conclusions import conclusions
from paceline.terminal.fitting_table import FittingTable
from paceline.terminal.tables import align_right, plain_table, status

_COMMON_SETTINGS = ("workload", "size", "engine", "strategy", "layout", "batch", "hosts_kind", "stop")


def comparison_view(comparison: Comparison) -> RenderableType:
    """Metrics of all configurations, then their hosts, then the conclusions in words."""
    groups = comparison.groups
    parts: list[RenderableType] = [_heading(groups), Text(), metrics_table(groups)]
    if any(group.ok for group in groups):
        parts += [Text(), hosts_table(groups)]
    return Stack(*parts, *conclusions(comparison))


def run_list(results: Sequence[Result]) -> Table:
    """One row per run."""
    table = plain_table(
        "run", "workload", "engine", "strategy", "layout", "batch", "status", "training time", "updates/s", "accuracy"
    )
    align_right(table, "batch", "training time", "updates/s", "accuracy")
    for result in results:
        table.add_row(
            result.run,
            result.title,
            result.engine,
            result.strategy,
            result.layout,
            numbers.batch(result.batch),
            status(result),
            numbers.seconds(result.train_s),
            numbers.number(result.updates_per_s),
            numbers.accuracy(result.final.accuracy),
        )
    return table


def _heading(groups: Sequence[Group]) -> Text:
    """The settings that all configurations have in common, and how to read the tables."""
    first, differing = groups[0].first, varied(groups)
    texts = {
        "workload": first.workload,
        "size": first.size,
        "engine": first.engine,
        "strategy": first.strategy,
        "layout": f"'{first.layout}'",
        "batch": f"batch {first.batch}" if first.batch else "",
        "hosts_kind": f"{first.hosts_kind} hosts",
        "stop": "until " + " or ".join(first.settings.get("stop") or ()),
    }
    common = " · ".join(texts[name] for name in _COMMON_SETTINGS if name not in differing and texts[name])
    legend = REPEATS_LEGEND if any(len(group.ok) > 1 for group in groups) else ""
    return Text("\n".join(line for line in (common, legend) if line), style="dim")


def metrics_table(groups: Sequence[Group]) -> FittingTable:
    """One row per configuration."""
    differing = varied(groups) or ["strategy"]
    informative = informative_metrics(groups)
    metrics = [metric for metric in (TO_TARGET, TRAIN) if metric in informative]
    metrics += [UPDATES, EXAMPLES, LOSS, ACCURACY, MEMORY]
    titles = ["runs", *[metric.title for metric in metrics], "value", "steps per worker"]
    labels = [setting_label(name) for name in differing]
    table = FittingTable(labels, [[title] for title in titles], left_aligned=["steps per worker"])
    for group in groups:
        table.add(
            [setting(group.first, name) for name in differing],
            [
                _run_count(group),
                *[metric.text(group) for metric in metrics],
                numbers.exact(group.ok[0].final.value) if group.ok else numbers.MISSING,
                " ".join(f"{spread.median:,.0f}" for spread in steps_per_worker(group).values()) or numbers.MISSING,
            ],
        )
    return table


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
