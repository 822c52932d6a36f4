"""A worker that records only when it is the turn of measuring, and notes how far it is; a server that does the same."""

import os
from pathlib import Path
from unittest import mock

import msgspec

from bench.quiet import stolen_s
from bench.turn import SETTLE_NS, TURN_NS, Mark, measured, next_measured, seconds_until, turn_at
from paceline.paramserver import busy_recorder
from paceline.recording import recorder
from paceline.recording.layout import RECORD_BYTES, WORD_BYTES, RecordKind
from paceline.recording.recorder import clock_ns


def record_in_turns(notes: Path) -> None:
    class Here(_InTurns):
        folder = notes

    mock.patch.object(recorder, "Recorder", Here).start()
    mock.patch.object(busy_recorder, "BusyRecorder", _BusyRecorderInTurns).start()


def _end_unrecorded(self: recorder.Recorder, end_ns: int, update: int, loss: float, staleness: int) -> None:
    self.current.step += 1


# Not by super(), which takes a while itself. In either turn it is one call.
_END_STEP = {True: recorder.Recorder.end_step, False: _end_unrecorded}
_INTO_S = 2 * SETTLE_NS / 1e9
"""Well after a worker's mark."""


class _InTurns(recorder.Recorder):
    folder: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._loud = {name: value for name, value in vars(self).items() if isinstance(value, recorder.Span)}
        self._silent = {name: recorder.SilentSpan(self, RecordKind[name.upper()]) for name in self._loud}
        self._notes = (self.folder / f"task-{os.getpid()}").open("wb", buffering=0)
        self._end_step, self._turn, self._due_ns = _END_STEP[True], 0, 0

    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        """Turns change between steps: a thread for it would take the interpreter away in the midst of them."""
        self._end_step(self, end_ns, update, loss, staleness)
        if end_ns >= self._due_ns:
            self._note(now := clock_ns())
            if (turn := turn_at(now)) > self._turn:
                self._turn, self._due_ns = turn, turn * TURN_NS + SETTLE_NS
                on = measured(turn)
                self._end_step = _END_STEP[on]
                # The strategies ask for a phase's span at each step anew.
                for name, span in (self._loud if on else self._silent).items():
                    setattr(self, name, span)
            else:
                self._due_ns = (turn + 1) * TURN_NS

    def _note(self, now: int) -> None:
        mark = Mark(self._turn, now, self.current.step, WORD_BYTES * self._next // RECORD_BYTES, stolen_s())
        self._notes.write(msgspec.json.encode(mark) + b"\n")


class _BusyRecorderInTurns(busy_recorder.BusyRecorder):
    def _record_intervals(self) -> None:
        turn = turn_at(clock_ns())
        while not self._closing.wait(seconds_until(turn := next_measured(turn), _INTO_S)):
            self._end_interval()
