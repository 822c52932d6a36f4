"""The state of a sweep for readers in other threads: a snapshot of the current run, and the number of finished runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan
from paceline.store.result import Result, Status

_SNAPSHOT_INTERVAL_S = 0.25
"""Agents send records about once a second, so more frequent snapshots would show nothing new."""
BEFORE = "before"
"""The status label of a run that an earlier sweep of the same name has made."""


class SweepState:
    """Collects the state of a sweep. Attributes are replaced and never modified, so readers need no lock."""

    def __init__(self) -> None:
        self.runs = 0
        """Number of runs in the sweep; 0 until its first run starts."""
        self.finished: dict[str, int] = dict.fromkeys((*get_args(Status), BEFORE), 0)
        """Number of finished runs by status."""
        self.run_state: RunState | None = None
        """A snapshot of the current run or, between two runs, of the last one."""

    @contextmanager
    def view(self, _plan: RunPlan, _number: int, run_count: int) -> Iterator[StateListener]:
        """A `pipeline.RunView` that takes snapshots of the run."""
        self.runs, snapshot_at_s = run_count, 0.0
        latest: RunState | None = None

        def listener(state: RunState) -> None:
            nonlocal snapshot_at_s, latest
            latest = state
            if time.monotonic() - snapshot_at_s >= _SNAPSHOT_INTERVAL_S:
                snapshot_at_s = time.monotonic()
                self.run_state = state.snapshot()

        try:
            yield listener
        finally:
            if latest:
                # Includes the records that arrived while the run was closing.
                self.run_state = latest.snapshot()

    def on_result(self, result: Result, skipped: bool) -> None:
        """Count a finished run."""
        status = BEFORE if skipped else result.status
        self.finished = self.finished | {status: self.finished[status] + 1}
