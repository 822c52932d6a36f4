"""TensorBoard files, made from the records of one task as they come in. Needs no framework."""

import math
import socket
import time
from bisect import bisect
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from paceline.recording.recorder import EVAL, STEP, clock_ns
from paceline.recording.rows import of_kind

_POINTS_A_WRITE = 10
BETWEEN_WRITES_S = 4.0
"""A curve needs no more points, and the controller must stay light."""


class TensorboardWriter:
    def __init__(self, folder: Path, outcome: str) -> None:
        """`outcome`: the name of what a step comes to."""
        # Imported here: protobuf takes a while to load, and the command line must not wait for it.
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self._outcome = outcome
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._file = path.open("ab")
        self._records = RecordWriter(self._file)
        self._wall_minus_monotonic = time.time() - clock_ns() / 1e9
        self._last: tuple[int, int] | None = None
        self._waiting: list[np.ndarray] = []
        self._write_at_s = 0.0
        self._records.write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self._file.flush()

    def add(self, records: np.ndarray) -> None:
        self._waiting.append(records)
        if time.monotonic() >= self._write_at_s:
            self._write_at_s = time.monotonic() + BETWEEN_WRITES_S
            self._write_all()

    def close(self) -> None:
        self._write_all()
        self._file.close()

    def _write_all(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        steps = _spread([of_kind(records, STEP) for records in waiting])
        for record in steps:
            self._write(record, **{self._outcome: float(record["value"])})
        if steps:
            self._pace(steps[-1])
        for record in chain.from_iterable(of_kind(records, EVAL) for records in waiting):
            values = {"eval/loss": float(record["value"]), "eval/accuracy": float(record["value2"])}
            self._write(record, **{tag: value for tag, value in values.items() if not math.isnan(value)})
        self._file.flush()

    def _pace(self, last: Any) -> None:
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


def _spread(shipments: list[np.ndarray]) -> list[Any]:
    """A few of them, the first and the last included, and the others evenly between."""
    ends = list(accumulate(map(len, shipments)))
    if not ends or not ends[-1]:
        return []
    numbers = {round(n * (ends[-1] - 1) / (_POINTS_A_WRITE - 1)) for n in range(_POINTS_A_WRITE)}
    # To make one array of all would be most of the work. Places are counted from a shipment's end.
    places = [(bisect(ends, number), number) for number in sorted(numbers)]
    return [shipments[which][number - ends[which]] for which, number in places]
