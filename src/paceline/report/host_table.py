"""The table of what each host did on average, and how much of it was left over."""

from collections.abc import Mapping, Sequence

import msgspec

from paceline.analyze.repeats import Group, setting
from paceline.report.table import Cell, DataTable, figure, words
from paceline.report.tables import name_columns
from paceline.store.result import HostResult, Result

_COLUMNS = [
    "host", "tasks", "cores used", "idle CPU %", "busiest core, max %", "memory used MB", "memory free MB",
    "external in MB/s", "external out MB/s", "external in, max MB/s", "external out, max MB/s", "loopback in MB/s",
    "loopback out MB/s", "disk read MB", "disk written MB",
]  # fmt: skip
_NOTE = (
    "Means over the training; memory used is the maximum of the host's tasks. Idle: of the cores the host may use, "
    "those that nothing used. Free: of the machine's memory, what the run's tasks left. Hosts on one machine share "
    "its cores, its memory and, on local, its network."
)


class Machine(msgspec.Struct, frozen=True):
    """What a run's hosts said they have."""

    cores: int
    memory_mb: float


def per_host(groups: Sequence[Group], machines: Mapping[str, Machine]) -> DataTable:
    """One row a host of each configuration; `machines` by run."""
    rows = [
        [*_names(group, groups), *_row(group, number, machines)]
        for group in groups
        for number in range(len(group.ok[0].hosts) if group.ok else 0)
    ]
    return DataTable(name="Per-host averages", note=_NOTE, columns=[*name_columns(groups), *_COLUMNS], rows=rows)


def _names(group: Group, groups: Sequence[Group]) -> list[Cell]:
    return [words(setting(group.first, name)) for name in name_columns(groups)]


def _row(group: Group, number: int, machines: Mapping[str, Machine]) -> list[Cell]:
    def host(result: Result) -> HostResult:
        return result.hosts[number]

    def idle(result: Result) -> float | None:
        return idle_share(result, host(result), machines.get(result.run))

    def free(result: Result) -> float | None:
        machine = machines.get(result.run)
        return machine.memory_mb - sum(one.memory_mb_max for one in result.hosts) if machine else None

    first = host(group.ok[0])
    return [
        words(first.host),
        words(" ".join(first.tasks)),
        figure(group, lambda r: host(r).cpu_cores_mean),
        figure(group, idle, scale=100, digits=1),
        figure(group, lambda r: host(r).busiest_core_max, scale=100, digits=0),
        figure(group, lambda r: host(r).memory_mb_max),
        figure(group, free),
        figure(group, lambda r: host(r).external.rx_mb_s_mean),
        figure(group, lambda r: host(r).external.tx_mb_s_mean),
        figure(group, lambda r: host(r).external.rx_mb_s_max),
        figure(group, lambda r: host(r).external.tx_mb_s_max),
        figure(group, lambda r: host(r).loopback.rx_mb_s_mean),
        figure(group, lambda r: host(r).loopback.tx_mb_s_mean),
        figure(group, lambda r: host(r).disk.read_mb),
        figure(group, lambda r: host(r).disk.write_mb),
    ]


def idle_share(result: Result, host: HostResult, machine: Machine | None) -> float | None:
    """Of a host with a CPU share of its own, what it left of that; else what all left of the machine's cores."""
    if cpus := result.settings.get("cpus"):
        return max(0.0, 1.0 - host.cpu_cores_mean / float(cpus))
    if not machine or not machine.cores:
        return None
    used = sum(one.cpu_cores_mean for one in result.hosts) + result.other_cores_mean
    return max(0.0, 1.0 - used / machine.cores)
