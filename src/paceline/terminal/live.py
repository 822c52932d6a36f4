"""Shows a run in progress: a live view on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from paceline.control.run_controller import StateListener
from paceline.control.run_state import Mark, RunState
from paceline.plan.place import RunPlan
from paceline.present.numbers import count, rate
from paceline.terminal.live_view import (
    mark_line,
    progress_texts,
    run_titles,
    setup_titles,
    time_texts,
    view_lines,
    worker_note,
)
from paceline.terminal.sweep_pace import SweepPace
from paceline.terminal.working import working

_REFRESH_S = 0.25
_PLAIN_EVERY_S = 5.0
"""Seconds between plain lines."""
_MAX_PLAIN_RATES = 8
"""With more workers, a plain line has only their lowest and highest rate."""


@contextmanager
def show(
    console: Console, plan: RunPlan, number: int, total: int, pace: SweepPace | None = None
) -> Iterator[StateListener]:
    """The view of run `number` of `total` that suits the console: call it with the state of the run.

    `pace` is the same object for all runs of a sweep.
    """
    pace = pace or SweepPace()
    with pace.measure(), ExitStack() as stack:
        live = (
            _live(console, plan, number, total, pace) if console.is_terminal else _plain(console, plan, number, total)
        )
        listener = stack.enter_context(live)
        finishing = False

        def watch(state: RunState) -> None:
            nonlocal finishing
            if not finishing:
                listener(state)
            if state.stage == "ended" and not finishing:
                finishing = True
                stack.pop_all().close()
                stack.enter_context(working(console, f"{state.run}: writing the tables and the result"))

        yield watch


@contextmanager
def _live(console: Console, plan: RunPlan, number: int, total: int, pace: SweepPace) -> Iterator[StateListener]:
    title = Text(" · ".join([*run_titles(plan, number, total), "opening the hosts"]), no_wrap=True, overflow="ellipsis")
    # Drawn only when it is updated, by the thread that also changes the state.
    with Live(title, console=console, auto_refresh=False, transient=True) as live:
        shown = 0.0

        def watch(state: RunState) -> None:
            nonlocal shown
            if time.monotonic() - shown >= _REFRESH_S:
                shown = time.monotonic()
                # The last line of the terminal stays free for the cursor.
                left_s = pace.left_s(state, total - number)
                lines = view_lines(state, number, total, console.width, max(1, console.height - 1), left_s)
                live.update(Group(*lines), refresh=True)

        yield watch


@contextmanager
def _plain(console: Console, plan: RunPlan, number: int, total: int) -> Iterator[StateListener]:
    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    line(" · ".join([*run_titles(plan, number, total), *setup_titles(plan)]))
    printed, marks = time.monotonic(), tuple[Mark, ...]()

    def watch(state: RunState) -> None:
        nonlocal printed, marks
        for mark in state.marks:
            if mark not in marks:
                line(f"  {mark_line(mark).plain}")
        marks = state.marks
        if time.monotonic() - printed >= _PLAIN_EVERY_S:
            printed = time.monotonic()
            line(f"  {plain_line(state)}")

    yield watch


def plain_line(state: RunState) -> str:
    """Progress, and the rate of each worker, in one line."""
    parts = [*progress_texts(state), *time_texts(state)]
    if state.update:
        parts.append(_rates(state))
    notes = {task: worker_note(state, worker) for task, worker in state.workers.items()}
    return " · ".join([*parts, *(f"{task}: {note}" for task, note in notes.items() if note)])


def _rates(state: RunState) -> str:
    rates = {task: state.steps_per_s(task) for task in state.workers}
    if len(rates) > _MAX_PLAIN_RATES:
        return f"{count(len(rates), 'worker')}, {rate(min(rates.values()))} to {rate(max(rates.values()))} steps/s each"
    return " ".join(f"{task} {rate(value)}/s" for task, value in rates.items())
