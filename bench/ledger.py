"""Who used the processor while a run went on: the tasks that train, or the agents and the controller that watch."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

_BETWEEN_S = 0.2


class Shares(msgspec.Struct, frozen=True):
    """CPU seconds over the part of the run in which all tasks were at work."""

    seconds: float
    training: float
    watching: float

    @property
    def overhead(self) -> float:
        """What watching takes of all the CPU used: no more than this can it slow full cores down."""
        return self.watching / (self.training + self.watching)


class Ledger:
    """Reads the kernel's own account (nanoseconds, by thread) of this process and all below it."""

    def __enter__(self) -> "Ledger":
        self._readings: list[tuple[float, dict[int, int], dict[int, int]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_now_and_then)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def shares(self) -> Shares:
        """Between the first and the last reading of the second half: loading frameworks is not training."""
        tasks = max(len(training) for _, training, _ in self._readings)
        whole = [reading for reading in self._readings if len(reading[1]) == tasks]
        (start, training_a, watching_a), (end, training_b, watching_b) = whole[len(whole) // 2], whole[-1]
        return Shares(end - start, _used(training_a, training_b), _used(watching_a, watching_b))

    def _read_now_and_then(self) -> None:
        me = psutil.Process()
        own_thread = threading.get_native_id()
        while not self._over.wait(_BETWEEN_S):
            training: dict[int, int] = {}
            watching = {me.pid: _cpu_ns(me.pid, without=own_thread)}
            for process in me.children(recursive=True):
                with suppress(psutil.Error, OSError):
                    is_task = "paceline.task" in process.cmdline()
                    (training if is_task else watching)[process.pid] = _cpu_ns(process.pid)
            self._readings.append((time.monotonic(), training, watching))


def _used(before: dict[int, int], after: dict[int, int]) -> float:
    return sum(after[pid] - before[pid] for pid in before.keys() & after.keys()) / 1e9


def _cpu_ns(pid: int, without: int = 0) -> int:
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if int(thread.name) != without:
            with suppress(OSError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total
