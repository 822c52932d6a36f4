"""Counters of a host on systems other than Linux, read with psutil."""

import psutil

from paceline.agent.counters import Deferred, InterfaceTotals, LinkCounts, MachineState, ProcessCount

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")
"""Fields of `cpu_times` left out of busy time; guest time is part of user time already."""


class PortableHost:
    def __init__(self) -> None:
        self._totals = InterfaceTotals()

    def cores_busy_s(self) -> Deferred[list[float]]:
        cores = psutil.cpu_times(percpu=True)
        return lambda: [
            sum(seconds for kind, seconds in core._asdict().items() if kind not in _NOT_BUSY) for core in cores
        ]

    def links(self) -> Deferred[LinkCounts]:
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        return lambda: self._totals.update(
            (name, (count.bytes_recv, count.bytes_sent, count.packets_recv, count.packets_sent))
            for name, count in counters.items()
        )

    def machine(self) -> MachineState:
        return MachineState(psutil.getloadavg()[0], psutil.virtual_memory().available)

    def process(self, pid: int) -> "PortableProcess | None":
        try:
            return PortableProcess(pid)
        except psutil.Error:
            return None


class PortableProcess:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)

    def read(self) -> Deferred[ProcessCount] | None:
        try:
            with self._process.oneshot():
                cpu = self._process.cpu_times()
                rss_bytes = self._process.memory_info().rss
                threads = self._process.num_threads()
            read_bytes, write_bytes = self._disk_bytes()
        except psutil.Error:
            return None
        # psutil reports 0 for ended children where the system does not count them (macOS, Windows).
        cpu_s = cpu.user + cpu.system + cpu.children_user + cpu.children_system
        return lambda: ProcessCount(cpu_s, rss_bytes, threads, read_bytes, write_bytes)

    def run_wait_s(self) -> None:
        """Always None: only Linux counts it."""

    def quota_periods(self) -> None:
        """Always None: only Linux has cgroups."""

    def children(self) -> list[int]:
        try:
            return [child.pid for child in self._process.children(recursive=True)]
        except psutil.Error:
            return []

    def close(self) -> None:
        pass

    def _disk_bytes(self) -> tuple[int, int]:
        try:
            count = self._process.io_counters()
        except (AttributeError, psutil.AccessDenied):  # macOS has no such counters.
            return 0, 0
        return count.read_bytes, count.write_bytes
