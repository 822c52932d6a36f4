"""Shows that work other than a run goes on: a bar on a terminal, plain lines every few seconds elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from paceline.present.numbers import duration

Advance = Callable[[str, int, int], None]
"""Called with what is done now, how much of it is done, and how much there is; 0 if that is not known."""
_SHOW_AFTER_S = 0.5
"""A bar for shorter work would only flicker."""
_PLAIN_EVERY_S = 5.0
_BAR_CELLS = 16


@contextmanager
def working(console: Console, what: str, plain_every_s: float = _PLAIN_EVERY_S) -> Iterator[Advance]:
    """Show that `what` goes on. The bar is removed at the end; without a terminal, short work prints nothing."""
    with _on_terminal(console, what) if console.is_terminal else _plain(console, what, plain_every_s) as advance:
        yield advance


@contextmanager
def _on_terminal(console: Console, what: str) -> Iterator[Advance]:
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (SpinnerColumn(), text, BarColumn(_BAR_CELLS), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what, total=None, done="")

    def advance(now: str, done: int, total: int) -> None:
        progress.update(task, description=now, completed=done, total=total or None, done=_amount(done, total))

    start = threading.Timer(_SHOW_AFTER_S, progress.start)
    start.start()
    try:
        yield advance
    finally:
        start.cancel()
        start.join()
        if progress.live.is_started:
            progress.stop()


@contextmanager
def _plain(console: Console, what: str, every_s: float) -> Iterator[Advance]:
    began, ended, shown = time.monotonic(), threading.Event(), what

    def advance(now: str, done: int, total: int) -> None:
        nonlocal shown
        shown = f"{now}: {_amount(done, total)}" if done or total else now

    def print_lines() -> None:
        while not ended.wait(every_s):
            text = f"  {shown}, {duration(time.monotonic() - began)}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        ended.set()
        thread.join()


def _amount(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
