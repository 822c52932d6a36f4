"""Shows the progress of runs that Python code makes: in the notebook cell that makes them, or on the terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from paceline.api.render import as_html, as_text
from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan
from paceline.present.bottleneck import bottleneck_location
from paceline.present.numbers import seconds
from paceline.store.result import Result
from paceline.terminal import live
from paceline.terminal.live_view import run_titles, view_lines
from paceline.terminal.sanitize import sanitized
from paceline.terminal.sweep_pace import SweepPace
from paceline.terminal.working import working

_NOTEBOOK_EVERY_S = 0.5
_NOTEBOOK_WIDTH, _NOTEBOOK_HEIGHT = 110, 30
Advance = Callable[[str, int, int], None]


class Progress:
    """Shows nothing. The other classes show what the pipeline reports."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def view(self, _plan: RunPlan, _number: int, _total: int) -> AbstractContextManager[StateListener]:
        """The context in which a run is made; the pipeline calls its listener with each new state of the run."""
        return nullcontext(lambda _state: None)

    def on_result(self, _result: Result, _skipped: bool) -> None:
        """A run has ended, or an earlier one is used in its place."""

    def on_message(self, _line: str) -> None:
        """A line for the user."""

    def show_work(self, _what: str) -> AbstractContextManager[Advance]:
        """Work other than a run goes on, such as the download of a data set."""
        return nullcontext(lambda _now, _done, _total: None)


def choose_progress(wanted: bool | None) -> Progress:
    """The progress that suits where the code runs; `wanted` None: shown in a notebook or on a terminal only."""
    if wanted is False:
        return Progress()
    if _in_notebook():
        return _NotebookProgress()
    if wanted or (sys.stderr and sys.stderr.isatty()):
        return _TerminalProgress()
    return Progress()


def _in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel, and not in a plain interpreter or in IPython on a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class _TerminalProgress(Progress):
    def __init__(self) -> None:
        self._console = sanitized(
            Console(file=sys.stderr, highlight=False, force_jupyter=False, quiet=sys.stderr is None)
        )
        self._pace = SweepPace()

    def view(self, plan: RunPlan, number: int, total: int) -> AbstractContextManager[StateListener]:
        return live.show(self._console, plan, number, total, self._pace)

    def on_result(self, result: Result, skipped: bool) -> None:
        if result.traceback and not skipped:
            self.on_message(result.traceback.rstrip())
        self.on_message(f"  {_outcome(result, skipped)}")

    def on_message(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show_work(self, what: str) -> AbstractContextManager[Advance]:
        return working(self._console, what)


class _NotebookProgress(Progress):
    """One output of the cell: a line for each finished run, and below them the run in progress."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._display: Callable[..., None] | None = None
        self._shown_at = 0.0

    def __enter__(self) -> Progress:
        from IPython.display import display, update_display

        handle = display(self._content(), raw=True, display_id=True)
        self._display = partial(update_display, raw=True, display_id=handle.display_id)
        return self

    def __exit__(self, *_: object) -> None:
        self._show()

    @contextmanager
    def view(self, plan: RunPlan, number: int, total: int) -> Iterator[StateListener]:
        self._show(Text(" · ".join([*run_titles(plan, number, total), "starting"])))

        def watch(state: RunState) -> None:
            if state.stage == "ended":
                self._show(Text(f"{state.run}: writing the tables and the result"))
            elif time.monotonic() - self._shown_at >= _NOTEBOOK_EVERY_S:
                self._show(*view_lines(state, number, total, _NOTEBOOK_WIDTH, _NOTEBOOK_HEIGHT))

        yield watch

    def on_result(self, result: Result, skipped: bool) -> None:
        if result.traceback and not skipped:
            self._lines.append(result.traceback.rstrip())
        self.on_message(_outcome(result, skipped))

    def on_message(self, line: str) -> None:
        self._lines.append(line)
        self._show()

    @contextmanager
    def show_work(self, what: str) -> Iterator[Advance]:
        self._show(Text(what))

        def advance(now: str, done: int, total: int) -> None:
            if time.monotonic() - self._shown_at >= _NOTEBOOK_EVERY_S:
                self._show(Text(f"{now}: {done:,} of {total:,}" if total else now))

        yield advance

    def _show(self, *below: Text) -> None:
        self._shown_at = time.monotonic()
        if self._display:
            self._display(self._content(*below))

    def _content(self, *below: Text) -> dict[str, Any]:
        shown = Group(*map(Text, self._lines), *below)
        return {"text/plain": as_text(shown), "text/html": as_html(shown)}


def _outcome(result: Result, skipped: bool) -> str:
    status = "already done" if skipped else result.status
    if result.reason:
        return f"{result.run}: {status}, {result.reason}"
    bottleneck = bottleneck_location(result.verdict.cause, result.verdict.where)
    return f"{result.run}: {status}, training {seconds(result.train_s)}, bottleneck: {bottleneck}"
