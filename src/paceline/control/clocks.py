"""The clocks of the hosts: measured when a host joins, and again during the run, because clocks drift."""

import bisect

from paceline.control.cluster import Clock, Cluster
from paceline.store.journal import ClockOffset
from paceline.store.writer import RunWriter

_MEASURE_EVERY_S = 30.0
_MAX_WORSE = 4.0
"""A later measurement counts only if its uncertainty is at most this many times that of the best one: a ping on a busy
link says less about the clock than the drift that it should show."""


class HostClocks:
    """Converts times of hosts to the run's time, and stores every measurement with the run."""

    def __init__(self, cluster: Cluster, writer: RunWriter) -> None:
        self._cluster, self._writer = cluster, writer
        self._measured: dict[str, list[Clock]] = {}
        self._due_s = _MEASURE_EVERY_S

    def measure(self, host: str) -> Clock | None:
        """Measure the clock of a host that joins; None if its agent does not answer."""
        clock = self._cluster.measure_clock(host)
        if clock:
            self._add(host, clock)
        return clock

    def measure_again(self, now_s: float) -> None:
        """Store the best measurement by the pings since the last time, if it is time for that."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + _MEASURE_EVERY_S
        for host, clocks in self._measured.items():
            clock = self._cluster.take_clock(host)
            best_ns = min(known.uncertainty_ns for known in clocks)
            if clock and clock.uncertainty_ns <= _MAX_WORSE * best_ns:
                self._add(host, clock)

    def run_time_s(self, host: str, host_ns: int) -> float:
        """The run's time at a time of the host's clock, by the measurement before it."""
        clocks = self._measured[host]
        position = bisect.bisect_right([clock.host_ns for clock in clocks], host_ns)
        offset_ns = clocks[max(0, position - 1)].offset_ns
        return (host_ns + offset_ns - self._writer.clock_zero_ns) / 1e9

    def _add(self, host: str, clock: Clock) -> None:
        self._measured.setdefault(host, []).append(clock)
        offset_ns = clock.offset_ns - self._writer.clock_zero_ns
        self._writer.add(ClockOffset(host, offset_ns, clock.uncertainty_ns, clock.host_ns))
