"""Several runs side by side."""

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
from paceline.store.result import HostResult, Result
from paceline.terminal import format as fmt
from paceline.terminal.conclusions import conclusions
from paceline.terminal.fitting_table import FittingTable
from paceline.terminal.tables import align_right, plain_table, status

_IN_COMMON = ("workload", "size", "engine", "strategy", "layout", "batch", "hosts_kind", "stop")


def comparison_view(comparison: Comparison) -> RenderableType:
    """Everything about several runs: the figures side by side, the hosts, and what it shows in words."""
    groups = comparison.groups
    parts: list[RenderableType] = [_common(groups), Text(), figures_table(groups)]
    if any(group.ok for group in groups):
        parts += [Text(), hosts_table(groups)]
    return Stack(*parts, *conclusions(comparison))


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


def _common(groups: Sequence[Group]) -> Text:
    """What all of them have in common, and how to read the figures."""
    first, apart = groups[0].first, varied(groups)
    words = {
        "workload": first.workload,
        "size": first.size,
        "engine": first.engine,
        "strategy": first.strategy,
        "layout": f"'{first.layout}'",
        "batch": f"batch {first.batch}" if first.batch else "",
        "hosts_kind": f"on {first.hosts_kind}",
        "stop": "until " + " or ".join(first.settings.get("stop") or ()),
    }
    same = " · ".join(words[name] for name in _IN_COMMON if name not in apart and words[name])
    repeated = any(len(group.ok) > 1 for group in groups)
    legend = "figures: median ± the repeat furthest from it" if repeated else ""
    return Text("\n".join(line for line in (same, legend) if line), style="dim")


def figures_table(groups: Sequence[Group]) -> FittingTable:
    """One row for all repeats of a configuration."""
    apart = varied(groups) or ["strategy"]
    useful = informative_metrics(groups)
    shown = [figure for figure in (TO_TARGET, TRAIN) if figure in useful]
    shown += [UPDATES, EXAMPLES, LOSS, ACCURACY, MEMORY]
    titles = ["runs", *[figure.title for figure in shown], "value", "steps per worker"]
    table = FittingTable([fmt.label(name) for name in apart], [[title] for title in titles], left=["steps per worker"])
    for group in groups:
        table.add(
            [setting(group.first, name) for name in apart],
            [
                _counts(group),
                *[fmt.figure(figure, group) for figure in shown],
                fmt.exact(group.ok[0].final.value) if group.ok else "-",
                " ".join(f"{spread.median:,.0f}" for spread in steps_per_worker(group).values()) or "-",
            ],
        )
    return table


def hosts_table(groups: Sequence[Group]) -> FittingTable:
    """One row a host of each configuration: where the workers' time went, and what the host did, as medians."""
    apart = varied(groups) or ["strategy"]
    where = "where its workers' time went"
    table = FittingTable(
        [*[fmt.label(name) for name in apart], "host", "tasks"],
        [[where], ["cores", "busiest core", "memory MB"], ["in MB/s", "out MB/s", "loopback MB/s"]],
        left=[where],
    )
    for group in groups:
        for number, host in enumerate(group.ok[0].hosts if group.ok else ()):
            names = [setting(group.first, name) if number == 0 else "" for name in apart]
            figures = _host_figures([result.hosts[number] for result in group.ok], group)
            table.add([*names, host.host, " ".join(host.tasks)], figures)
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
        fmt.number(median(host.cpu_cores_mean for host in hosts)),
        f"{median(host.busiest_core_max for host in hosts):.0%}",
        fmt.number(median(host.memory_mb_max for host in hosts)),
        fmt.rate(median(host.external.rx_mb_s_mean for host in hosts)),
        fmt.rate(median(host.external.tx_mb_s_mean for host in hosts)),
        fmt.rate(median(host.loopback.rx_mb_s_mean for host in hosts)),
    ]


def _counts(group: Group) -> str:
    good, all_ = len(group.ok), len(group.results)
    return str(all_) if good == all_ else f"{good} of {all_}"
