"""The report's tables of the hosts: what each used, how much CPU and memory was left, and the links between them."""

from collections.abc import Mapping, Sequence

from paceline.analyze.machines import Machines
from paceline.analyze.repeats import Group
from paceline.present.numbers import number
from paceline.report.table import Cell, DataTable, metric_cell, setting_cells, setting_columns, text_cell
from paceline.store.result import HostResult, Result

_COLUMNS = [
    "host", "tasks", "cores used", "idle CPU (%)", "busiest core, max (%)", "memory used (MB)", "memory free (MB)",
    "network in (MB/s)", "network out (MB/s)", "network in, max (MB/s)", "network out, max (MB/s)",
    "loopback in (MB/s)", "loopback out (MB/s)", "disk read (MB)", "disk written (MB)",
    "packets in, max (1/s)", "packets out, max (1/s)", "memory used, mean (MB)", "load average", "load average, max",
]  # fmt: skip
_LINK_COLUMNS = [
    "hosts", "from", "to", "rate (MB/s)", "round trip, median (ms)", "round trip, min (ms)", "used in runs",
]  # fmt: skip
_LINKS_NOTE = (
    "Measured before the training, one direction at a time: the rate of one TCP connection, and the round-trip time of "
    "small messages. Runs on the same hosts share a measurement for a week."
)
_NOTE = (
    "Means over the training, except for maxima; memory used is the peak of the host's tasks. Load average: threads of "
    "the machine that ran or waited in the last minute, so it lags behind in short runs. Idle CPU: share of the "
    "cores available to the host that was unused. Memory free: the machine's memory minus that of all tasks of the "
    "run. Hosts on one machine share its cores and memory and, with local hosts, its network."
)


def hosts_table(groups: Sequence[Group], machines: Mapping[str, Machines]) -> DataTable:
    """One row per host of each configuration; `machines` by the directory of the run."""
    rows = [
        [*setting_cells(group, groups), *_row(group, number, machines)]
        for group in groups
        for number in range(len(group.ok[0].hosts) if group.ok else 0)
    ]
    return DataTable(name="Hosts", note=_NOTE, columns=[*setting_columns(groups), *_COLUMNS], rows=rows)


def links_table(results: Sequence[Result]) -> DataTable:
    """One row per link of each set of hosts; runs that used the same measurement share their rows."""
    runs: dict[tuple[str, str, str, float | None, float | None, float | None], list[str]] = {}
    for result in results:
        for link in result.links:
            key = (result.hosts_kind, link.sender, link.receiver, link.mb_s, link.rtt_ms, link.rtt_min_ms)
            runs.setdefault(key, []).append(result.run)
    rows = [
        [*map(text_cell, names), *(Cell(number(value), value) for value in values), text_cell(_used_in(runs[key]))]
        for key in runs
        for names, values in [(key[:3], key[3:])]
    ]
    return DataTable(name="Links between hosts", note=_LINKS_NOTE, columns=_LINK_COLUMNS, rows=rows)


def _used_in(runs: Sequence[str]) -> str:
    return runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"


def _row(group: Group, number: int, machines: Mapping[str, Machines]) -> list[Cell]:
    def host(result: Result) -> HostResult:
        return result.hosts[number]

    def idle(result: Result) -> float | None:
        return idle_share(result, host(result), machines[result.dir])

    def free(result: Result) -> float | None:
        return free_memory_mb(result, host(result), machines[result.dir])

    first = host(group.ok[0])
    return [
        text_cell(first.host),
        text_cell(" ".join(first.tasks)),
        metric_cell(group, lambda r: host(r).cpu_cores_mean),
        metric_cell(group, idle, scale=100, digits=1),
        metric_cell(group, lambda r: host(r).busiest_core_max, scale=100, digits=0),
        metric_cell(group, lambda r: host(r).memory_mb_max),
        metric_cell(group, free),
        metric_cell(group, lambda r: host(r).external.rx_mb_s_mean),
        metric_cell(group, lambda r: host(r).external.tx_mb_s_mean),
        metric_cell(group, lambda r: host(r).external.rx_mb_s_max),
        metric_cell(group, lambda r: host(r).external.tx_mb_s_max),
        metric_cell(group, lambda r: host(r).loopback.rx_mb_s_mean),
        metric_cell(group, lambda r: host(r).loopback.tx_mb_s_mean),
        metric_cell(group, lambda r: host(r).disk.read_mb),
        metric_cell(group, lambda r: host(r).disk.write_mb),
        metric_cell(group, lambda r: host(r).external.rx_packets_s_max, digits=0),
        metric_cell(group, lambda r: host(r).external.tx_packets_s_max, digits=0),
        metric_cell(group, lambda r: host(r).memory_mb_mean or None),
        metric_cell(group, lambda r: host(r).load_average_mean),
        metric_cell(group, lambda r: host(r).load_average_max),
    ]


def free_memory_mb(result: Result, host: HostResult, machines: Machines) -> float | None:
    """The memory of the host's machine that the run's tasks did not use; None if the host never joined."""
    if host.host not in machines.by_host:
        return None
    hosts = result.hosts if machines.shared else [host]
    return machines.by_host[host.host].memory_mb - sum(other.memory_mb_max for other in hosts)


def idle_share(result: Result, host: HostResult, machines: Machines) -> float | None:
    """The unused share of the host's CPU limit, or of its machine's cores if the host has no limit of its own."""
    if limit := machines.cpu_limits.get(host.host):
        return max(0.0, 1.0 - host.cpu_cores_mean / limit)
    cores = machines.cores(host.host)
    if not cores:
        return None
    on_machine = result.hosts if machines.shared else [host]
    others = result.other_cores_mean if machines.shared else result.other_cores_by_host.get(host.host, 0.0)
    return max(0.0, 1.0 - (sum(one.cpu_cores_mean for one in on_machine) + others) / cores)
