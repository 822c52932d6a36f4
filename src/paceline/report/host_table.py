"""The report's table of the hosts: what each used, and how much CPU and memory was left."""

from collections.abc import Mapping, Sequence

from paceline.analyze.machines import Machines
from paceline.analyze.repeats import Group
from paceline.report.table import Cell, DataTable, metric_cell, setting_cells, setting_columns, text_cell
from paceline.store.result import HostResult, Result

_COLUMNS = [
    "host", "tasks", "cores used", "idle CPU (%)", "busiest core, max (%)", "memory used (MB)", "memory free (MB)",
    "network in (MB/s)", "network out (MB/s)", "network in, max (MB/s)", "network out, max (MB/s)",
    "loopback in (MB/s)", "loopback out (MB/s)", "disk read (MB)", "disk written (MB)",
]  # fmt: skip
_NOTE = (
    "Means over the training, except for maxima; memory used is the peak of the host's tasks. Idle CPU: share of the "
    "cores available to the host that was unused. Memory free: the machine's memory minus that of all tasks of the "
    "run. Hosts on one machine share its cores and memory and, with local hosts, its network."
)


def hosts_table(groups: Sequence[Group], machines: Mapping[str, Machines]) -> DataTable:
    """One row per host of each configuration; `machines` by run id."""
    rows = [
        [*setting_cells(group, groups), *_row(group, number, machines)]
        for group in groups
        for number in range(len(group.ok[0].hosts) if group.ok else 0)
    ]
    return DataTable(name="Hosts", note=_NOTE, columns=[*setting_columns(groups), *_COLUMNS], rows=rows)


def _row(group: Group, number: int, machines: Mapping[str, Machines]) -> list[Cell]:
    def host(result: Result) -> HostResult:
        return result.hosts[number]

    def idle(result: Result) -> float | None:
        return idle_share(result, host(result), machines[result.run])

    def free(result: Result) -> float | None:
        return free_memory_mb(result, host(result), machines[result.run])

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
    ]


def free_memory_mb(result: Result, host: HostResult, machines: Machines) -> float | None:
    """The memory of the host's machine that the run's tasks did not use; None if the host never joined."""
    if host.host not in machines.by_host:
        return None
    hosts = result.hosts if machines.shared else [host]
    return machines.by_host[host.host].memory_mb - sum(other.memory_mb_max for other in hosts)


def idle_share(result: Result, host: HostResult, machines: Machines) -> float | None:
    """The unused share of the host's CPU limit, or of its machine's cores if the host has no limit of its own."""
    if cpus := result.settings.get("cpus"):
        return max(0.0, 1.0 - host.cpu_cores_mean / float(cpus))
    cores = machines.cores(host.host)
    if not cores:
        return None
    on_machine = result.hosts if machines.shared else [host]
    others = result.other_cores_mean if machines.shared else result.other_cores_by_host.get(host.host, 0.0)
    return max(0.0, 1.0 - (sum(one.cpu_cores_mean for one in on_machine) + others) / cores)
