"""Whether a virtual machine had its cores while something was measured."""

import time
from types import TracebackType

import psutil

MOST_STOLEN = 0.1
"""Of the cores, on average: from here on a measurement says more of the machine's other guests than of us."""


class Stolen:
    """How many cores the machine below took away inside of a `with`; 0 where it does not say."""

    cores = 0.0

    def __enter__(self) -> "Stolen":
        self._start_s, self._before_s = time.monotonic(), stolen_s()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.cores = (stolen_s() - self._before_s) / (time.monotonic() - self._start_s)

    @property
    def disturbs(self) -> bool:
        return self.cores > MOST_STOLEN


def stolen_s() -> float:
    """All that was ever taken away."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
