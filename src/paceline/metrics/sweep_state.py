"""What is going on in a sweep, kept for readers in other threads: the run under way, and the count of those done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from paceline.control.run_controller import Watch
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan
from paceline.store.result import Result, Status

_LOOK_EVERY_S = 0.25  # agents ship about once a second: more often there is nothing new
BEFORE = "before"
"""How a run counts that an earlier sweep of the same name has made."""


class SweepState:
    """Listens beside the live view. What it holds is replaced and never changed, so no reader has to wait."""

    def __init__(self) -> None:
        self.runs = 0
        """Of the sweep in all; 0 until its first run begins."""
        self.finished: dict[str, int] = dict.fromkeys((*get_args(Status), BEFORE), 0)
        self.moment: RunState | None = None
        """Of the run under way or, until the next one begins, of the last."""

    @contextmanager
    def view(self, _plan: RunPlan, _number: int, of: int) -> Iterator[Watch]:
        self.runs, looked_s = of, 0.0
        latest: RunState | None = None

        def watch(moment: RunState) -> None:
            nonlocal looked_s, latest
            latest = moment
            if time.monotonic() - looked_s >= _LOOK_EVERY_S:
                looked_s = time.monotonic()
                self.moment = moment.snapshot()

        try:
            yield watch
        finally:
            if latest:  # with all that came in while the run was closing
                self.moment = latest.snapshot()

    def on_result(self, result: Result, skipped: bool) -> None:
        counted = BEFORE if skipped else result.status
        self.finished = self.finished | {counted: self.finished[counted] + 1}
