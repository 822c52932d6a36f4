"""Patches workers and servers to record only in measured time slots; workers also note their progress."""

import os
from pathlib import Path
from unittest import mock

import msgspec

from bench.cpu_steal import stolen_s
from bench.slots import SETTLE_NS, SLOT_NS, WorkerMark, is_measured, next_measured, seconds_until, slot_at
from paceline.paramserver import busy_recorder
from paceline.recording import recorder
from paceline.recording.layout import RECORD_BYTES, WORD_BYTES, RecordKind
from paceline.recording.recorder import clock_ns


def record_in_slots(notes: Path) -> None:
    class SlotRecorder(_SlotRecorder):
        folder = notes

    mock.patch.object(recorder, "Recorder", SlotRecorder).start()
    mock.patch.object(busy_recorder, "BusyRecorder", _SlotBusyRecorder).start()


def _end_unrecorded(self: recorder.Recorder, end_ns: int, update: int, loss: float, staleness: int) -> None:
    self.current.step += 1


# Called through this table and not by super(), which is slower. Both kinds of slots make exactly one call.
_END_STEP = {True: recorder.Recorder.end_step, False: _end_unrecorded}
_OFFSET_S = 2 * SETTLE_NS / 1e9
"""When a server records, from the start of a slot: well after a worker's mark."""


class _SlotRecorder(recorder.Recorder):
    folder: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spans = {name: value for name, value in vars(self).items() if isinstance(value, recorder.Span)}
        self._silent_spans = {name: recorder.SilentSpan(self, RecordKind[name.upper()]) for name in self._spans}
        self._notes = (self.folder / f"task-{os.getpid()}").open("wb", buffering=0)
        self._end_step, self._slot, self._next_mark_ns = _END_STEP[True], 0, 0

    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        """Switch slots between steps: a separate thread would take the interpreter away in the middle of a step."""
        self._end_step(self, end_ns, update, loss, staleness)
        if end_ns >= self._next_mark_ns:
            self._write_mark(now := clock_ns())
            if (slot := slot_at(now)) > self._slot:
                self._slot, self._next_mark_ns = slot, slot * SLOT_NS + SETTLE_NS
                is_on = is_measured(slot)
                self._end_step = _END_STEP[is_on]
                # The strategies read these attributes at each step.
                for name, span in (self._spans if is_on else self._silent_spans).items():
                    setattr(self, name, span)
            else:
                self._next_mark_ns = (slot + 1) * SLOT_NS

    def _write_mark(self, now_ns: int) -> None:
        mark = WorkerMark(self._slot, now_ns, self.current.step, WORD_BYTES * self._next // RECORD_BYTES, stolen_s())
        self._notes.write(msgspec.json.encode(mark) + b"\n")


class _SlotBusyRecorder(busy_recorder.BusyRecorder):
    def _record_intervals(self) -> None:
        slot = slot_at(clock_ns())
        while not self._closing.wait(seconds_until(slot := next_measured(slot), _OFFSET_S)):
            self._end_interval()
