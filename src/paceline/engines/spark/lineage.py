"""RDDs whose lineage grows with the steps, as in an iterative program that derives its state from the last one."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from paceline.recording.recorder import clock_ns

GROW = "grow"


class KeepPartition:
    """The partition unchanged: only the lineage grows."""

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[int]:
        yield from rows


class LineageTimes(msgspec.Struct):
    """What the lineage cost so far."""

    length: int = 0
    longest: int = 0
    checkpoints: int = 0
    checkpoint_ns: int = 0


class Lineage:
    """Derives the RDD of each step from that of the step before it, and checkpoints it every so many steps."""

    def __init__(self, partitions: Any, every: str) -> None:
        """`every`: the number of steps between checkpoints, or GROW for none."""
        self._current, self._before = partitions, None
        self._every = None if every == GROW else int(every)
        self.times = LineageTimes()

    def next_step(self) -> Any:
        """The RDD of the next step."""
        if self._before is not None:
            self._before.unpersist()
        self._before, times = self._current, self.times
        self._current = self._current.mapPartitionsWithIndex(KeepPartition(), True).persist()
        times.length += 1
        times.longest = max(times.longest, times.length)
        if self._every and times.length >= self._every:
            start = clock_ns()
            # Local: the executors keep the data, because they may have no file system in common.
            self._current.localCheckpoint()
            self._current.count()
            times.checkpoint_ns += clock_ns() - start
            times.checkpoints += 1
            times.length = 0
        return self._current

    def details(self) -> dict[str, float]:
        times = self.times
        mean_ns = times.checkpoint_ns / times.checkpoints if times.checkpoints else 0.0
        return {
            "longest_lineage": times.longest,
            "lineage_checkpoints": times.checkpoints,
            "lineage_checkpoint_s": mean_ns / 1e9,
        }
