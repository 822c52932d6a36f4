"""Measures CPU steal: the time for which the hypervisor gave this virtual machine's cores to other guests."""

import time
from types import TracebackType

import psutil

MAX_STOLEN_CORES = 0.1
"""Average number of stolen cores above which a measurement says more about the other guests than about Paceline."""


class StealMeter:
    """A context manager that measures how many cores were stolen on average; 0 where the system does not report it."""

    cores = 0.0

    def __enter__(self) -> "StealMeter":
        self._start_s, self._stolen_before_s = time.monotonic(), stolen_s()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.cores = (stolen_s() - self._stolen_before_s) / (time.monotonic() - self._start_s)

    @property
    def is_too_high(self) -> bool:
        return self.cores > MAX_STOLEN_CORES


def stolen_s() -> float:
    """CPU seconds stolen since boot, summed over all cores."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
