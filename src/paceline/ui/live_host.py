"""A host of a run in progress: its rates now and over time, from the cumulative counters in its samples."""

from collections import deque
from collections.abc import Sequence

import msgspec

from paceline.messages import HostSample
from paceline.ui.history import Intervals, Series

_WINDOW_S = 2.0
_LATE_S = 3.0
"""Agents send samples about once a second. A host without any for this long is shown as silent."""
NAMES = ("cpu", "memory", "rx", "tx", "loopback", "disk_read", "disk_write")


class Counters(msgspec.Struct, frozen=True):
    """The counters of a host at one moment, in cores × s and MB; memory is an amount."""

    t_s: float
    cpu: float
    memory: float
    rx: float
    tx: float
    loopback: float
    disk_read: float
    disk_write: float


def counters_of(sample: HostSample, t_s: float) -> Counters:
    return Counters(
        t_s,
        sample.cpu_s,
        sample.memory_bytes / 1e6,
        sample.external.rx_bytes / 1e6,
        sample.external.tx_bytes / 1e6,
        sample.loopback.rx_bytes / 1e6,
        sample.disk_read_bytes / 1e6,
        sample.disk_write_bytes / 1e6,
    )


def rates(first: Counters, last: Counters) -> list[float | None]:
    """In the order of NAMES; None if no time passed between the two."""
    seconds = last.t_s - first.t_s
    return [
        last.memory
        if name == "memory"
        else max(0.0, getattr(last, name) - getattr(first, name)) / seconds
        if seconds > 0
        else None
        for name in NAMES
    ]


class LiveHost:
    def __init__(self, host: str, intervals: Intervals) -> None:
        self.host = host
        self._recent: deque[Counters] = deque()
        self._series: Series[Counters] = Series(intervals, lambda _earlier, later: later)

    def add(self, samples: Sequence[Counters], opened_s: float | None) -> None:
        """Times are on the run's clock; the history begins when the training does, at `opened_s`."""
        for sample in samples:
            self._recent.append(sample)
            if opened_s is not None and sample.t_s >= opened_s:
                self._series.add(sample.t_s - opened_s, sample)
        while len(self._recent) > 2 and self._recent[-1].t_s - self._recent[0].t_s > _WINDOW_S:
            self._recent.popleft()

    def now(self) -> dict[str, float | None]:
        if not self._recent:
            return dict.fromkeys(NAMES)
        return dict(zip(NAMES, map(_short, rates(self._recent[0], self._recent[-1])), strict=True))

    def silent_s(self, clock_s: float) -> float | None:
        """Seconds without a sample until `clock_s` of the run's clock, if samples are overdue."""
        late_s = clock_s - self._recent[-1].t_s if self._recent else 0.0
        return late_s if late_s >= _LATE_S else None

    def history(self, first: int, last: int) -> dict[str, list[float | None]]:
        """The mean rates of these intervals."""
        columns: dict[str, list[float | None]] = {name: [] for name in NAMES}
        values = self._series.values
        before = next((values[number] for number in range(first - 1, -1, -1) if number in values), None)
        for number in range(first, last + 1):
            here = values.get(number)
            row: list[float | None] = [None] * len(NAMES)
            if here is not None:
                row = rates(before or here, here)
                before = here
            for name, value in zip(NAMES, row, strict=True):
                columns[name].append(_short(value))
        return columns


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
