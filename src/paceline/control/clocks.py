"""The clocks of the hosts: measured when a host joins, and again during the run, because clocks drift."""

import bisect

from paceline.control.cluster import Clock, Cluster
from paceline.store.journal import ClockOffset
from paceline.store.writer import RunWriter

_MEASURE_EVERY_S = 30.0
_MAX_WORSE = 4.0
_MAX_DRIFT = 50e-6
"""A later measurement counts only if its uncertainty is at most _MAX_WORSE times that of the best one, or at most what
the clock may have drifted since the last one (seconds per second): a ping on a busy link says too little."""


class HostClocks:
    """Converts times of hosts to the run's time, and stores every measurement with the run."""

    def __init__(self, cluster: Cluster, writer: RunWriter, *, one_clock: bool = False) -> None:
        """`one_clock`: all hosts are on the controller's machine and read the same clock as the controller."""
        self._cluster, self._writer, self._one_clock = cluster, writer, one_clock
        self._measured: dict[str, list[Clock]] = {}
        self._uncertainty_ns: dict[str, int] = {}
        """The largest one of each host, as stored with the run."""
        self._due_s = _MEASURE_EVERY_S

    def measure(self, host: str) -> Clock | None:
        """Measure the clock of a host that joins; None if its agent does not answer."""
        clock = self._cluster.measure_clock(host)
        if clock and self._one_clock:
            clock = Clock(0, 0, clock.host_ns, clock.round_trip_ns)
        if clock:
            self._uncertainty_ns[host] = clock.uncertainty_ns  # The event `joined` has it.
            self._add(host, clock)
        return clock

    def measure_again(self, now_s: float) -> None:
        """Store the best measurement by the pings since the last time, if it is time for that."""
        if now_s >= self._due_s:
            self._due_s = now_s + _MEASURE_EVERY_S
            self.measure_now()

    def measure_now(self) -> None:
        """Store the best measurement by the pings since the last time; also at the end, for the last part of a run."""
        for host, clocks in self._measured.items() if not self._one_clock else ():
            clock = self._cluster.take_clock(host)
            if clock is None:
                continue
            drift_ns = int(_MAX_DRIFT * max(0, clock.host_ns - clocks[-1].host_ns))
            best_ns = min(known.uncertainty_ns for known in clocks)
            if clock.uncertainty_ns <= max(_MAX_WORSE * best_ns, drift_ns):
                self._store_uncertainty(host, clock, clocks[-1], drift_ns)
                self._add(host, clock)

    def _store_uncertainty(self, host: str, clock: Clock, before: Clock, drift_ns: int) -> None:
        """Store how precisely the host's times are known, if that is less than before.

        A clock that changed by more than it can drift has jumped. Nobody knows when, so its times may be wrong by that.
        """
        changed_ns = abs(clock.offset_ns - before.offset_ns)
        jumped = changed_ns > drift_ns + clock.uncertainty_ns + before.uncertainty_ns
        uncertainty_ns = max(clock.uncertainty_ns, changed_ns if jumped else 0)
        if uncertainty_ns > self._uncertainty_ns[host]:
            self._uncertainty_ns[host] = uncertainty_ns
            self._writer.event("clock", host=host, clock_uncertainty_ns=uncertainty_ns, jumped=jumped)

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
