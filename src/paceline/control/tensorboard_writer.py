"""Writes TensorBoard files from the step records of one task while they arrive, without TensorFlow."""

import math
import socket
import time
from bisect import bisect
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from paceline.recording.layout import EVAL, STEP
from paceline.recording.recorder import clock_ns
from paceline.recording.rows import of_kind

_POINTS_PER_WRITE = 10
WRITE_EVERY_S = 4.0
"""_POINTS_PER_WRITE points every WRITE_EVERY_S are enough for a curve and cost the controller little CPU time."""


class TensorboardWriter:
    def __init__(self, folder: Path, step_value_name: str) -> None:
        """`step_value_name`: tag of the value that each step records, `loss` or `value`."""
        # Imported here because protobuf is slow to import and the command line must start fast.
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self._step_value_name = step_value_name
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._file = path.open("ab")
        self._records = RecordWriter(self._file)
        self._wall_minus_monotonic = time.time() - clock_ns() / 1e9
        self._last: tuple[int, int] | None = None
        self._pending: list[np.ndarray] = []
        self._write_at_s = 0.0
        self._records.write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self._file.flush()

    def add(self, records: np.ndarray) -> None:
        self._pending.append(records)
        if time.monotonic() >= self._write_at_s:
            self._write_at_s = time.monotonic() + WRITE_EVERY_S
            self._write_pending()

    def close(self) -> None:
        self._write_pending()
        self._file.close()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        steps = _evenly_spaced([of_kind(records, STEP) for records in pending])
        for record in steps:
            self._write(record, **{self._step_value_name: float(record["loss"])})
        if steps:
            self._write_steps_per_s(steps[-1])
        for record in chain.from_iterable(of_kind(records, EVAL) for records in pending):
            values = {"eval/loss": float(record["loss"]), "eval/accuracy": float(record["accuracy"])}
            self._write(record, **{tag: value for tag, value in values.items() if not math.isnan(value)})
        self._file.flush()

    def _write_steps_per_s(self, last: Any) -> None:
        end, step = int(last["end_ns"]), int(last["step"])
        if self._last and end > self._last[0]:
            self._write(last, steps_per_s=(step - self._last[1]) / (end - self._last[0]) * 1e9)
        self._last = (end, step)

    def _write(self, record: Any, **values: float) -> None:
        summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=v) for tag, v in values.items()])
        wall = int(record["end_ns"]) / 1e9 + self._wall_minus_monotonic
        self._records.write(
            self._event(wall_time=wall, step=int(record["update"]), summary=summary).SerializeToString()
        )


def _evenly_spaced(chunks: list[np.ndarray]) -> list[Any]:
    """Up to _POINTS_PER_WRITE records, evenly spaced, including the first and the last."""
    ends = list(accumulate(map(len, chunks)))
    if not ends or not ends[-1]:
        return []
    indices = {round(n * (ends[-1] - 1) / (_POINTS_PER_WRITE - 1)) for n in range(_POINTS_PER_WRITE)}
    # The chunks are not concatenated, which would cost more than everything else here. `index - ends[chunk]` is
    # negative: it counts from the end of the chunk.
    positions = [(bisect(ends, index), index) for index in sorted(indices)]
    return [chunks[chunk][index - ends[chunk]] for chunk, index in positions]
