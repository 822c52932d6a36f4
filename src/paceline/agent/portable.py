"""Counters of a host on any system, by psutil."""

import psutil

from paceline.agent.counters import Deferred, Links, ProcessCount
from paceline.messages import LinkCount

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # guest time is in user already


class PortableHost:
    def cores_busy_s(self) -> Deferred[list[float]]:
        cores = psutil.cpu_times(percpu=True)
        return lambda: [
            sum(seconds for kind, seconds in core._asdict().items() if kind not in _NOT_BUSY) for core in cores
        ]

    def links(self) -> Deferred[Links]:
        external, loopback = [0, 0, 0, 0], [0, 0, 0, 0]
        for name, count in psutil.net_io_counters(pernic=True, nowrap=False).items():
            total = loopback if name.startswith("lo") else external
            values = (count.bytes_recv, count.bytes_sent, count.packets_recv, count.packets_sent)
            total[:] = [before + more for before, more in zip(total, values, strict=True)]
        return lambda: Links(LinkCount(*external), LinkCount(*loopback))

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
            read_bytes, write_bytes = self._disk()
        except psutil.Error:
            return None
        # Where the system does not tell of children (macOS, Windows) psutil says 0.
        cpu_s = cpu.user + cpu.system + cpu.children_user + cpu.children_system
        return lambda: ProcessCount(cpu_s, rss_bytes, threads, read_bytes, write_bytes)

    def run_wait_s(self) -> None:
        """Only Linux counts it."""

    def children(self) -> list[int]:
        try:
            return [child.pid for child in self._process.children(recursive=True)]
        except psutil.Error:
            return []

    def close(self) -> None:
        pass

    def _disk(self) -> tuple[int, int]:
        try:
            count = self._process.io_counters()
        except (AttributeError, psutil.AccessDenied):  # macOS does not count them
            return 0, 0
        return count.read_bytes, count.write_bytes
