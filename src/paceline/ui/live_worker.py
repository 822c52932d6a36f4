"""A worker of a run in progress: its steps, rate, loss and phases, from its records."""

import math

import numpy as np

from paceline.control.step_rate import StepRate
from paceline.recording.layout import STEP, TIMED_NAMES, RecordKind
from paceline.recording.rows import of_kind, spent_ns

_TIMED_KINDS = {name: int(RecordKind[name.upper()]) for name in TIMED_NAMES}
_SMOOTHED = 0.5
"""Weight of the newest records in the shown phases, so that bars do not jump."""


class LiveWorker:
    def __init__(self, task: str, host: str, now_ns: int) -> None:
        self.task, self.host = task, host
        self.steps, self.update, self.loss = 0, 0, math.nan
        self.condition: str | None = None
        """Why it makes no steps, if that is known: restarting, exited or finished."""
        self.phases: dict[str, float] = {}
        self.rate = StepRate(now_ns)

    def add(self, records: np.ndarray, now_ns: int) -> np.ndarray:
        """Add records as they were written; returns those of steps."""
        steps = of_kind(records, STEP)
        if len(steps):
            last = steps[-1]
            self.steps += len(steps)
            self.update, self.loss = max(self.update, int(steps["update"].max())), float(last["loss"])
            self.rate.add(int(steps[0]["start_ns"]), int(last["end_ns"]), len(steps), now_ns)
        self._add_phases(records)
        return steps

    def _add_phases(self, records: np.ndarray) -> None:
        by_kind = spent_ns(records)
        total = float(sum(by_kind[kind] for kind in _TIMED_KINDS.values()))
        if total <= 0:
            return
        new = {name: float(by_kind[kind]) / total for name, kind in _TIMED_KINDS.items() if by_kind[kind] > 0}
        weight = _SMOOTHED if self.phases else 1.0
        names = [name for name in TIMED_NAMES if name in new or name in self.phases]
        self.phases = {name: weight * new.get(name, 0.0) + (1 - weight) * self.phases.get(name, 0.0) for name in names}
