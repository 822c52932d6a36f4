"""Shows what the first rank of a user's script prints, while the run is under way."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan
from paceline.plan.roles import CHIEF
from paceline.store.paths import RunPaths


def echo_first_rank(
    console: Console, runs: str
) -> Callable[[RunPlan, int, int], AbstractContextManager[StateListener]]:
    """A view that prints new text of the first rank's log. `runs` is the directory of the runs."""

    @contextmanager
    def view(_plan: RunPlan, _number: int, _count: int) -> Iterator[StateListener]:
        echo = _Echo(console, Path(runs))
        try:
            yield echo.listen
        finally:
            echo.close()

    return view


class _Echo:
    def __init__(self, console: Console, runs: Path) -> None:
        self._console, self._runs = console, runs
        self._file: BinaryIO | None = None
        self._rest = b""
        """The beginning of a line whose end has not arrived yet."""

    def listen(self, state: RunState) -> None:
        log = RunPaths(self._runs / state.run).log(CHIEF)
        if self._file is None and log.exists():
            self._file = log.open("rb")
        self._print()

    def close(self) -> None:
        """Print the last text, which arrives when the run has ended."""
        if self._file:
            self._print()
            self._show(self._rest)
            self._file.close()

    def _print(self) -> None:
        if self._file and (text := self._file.read()):
            *lines, self._rest = (self._rest + text).split(b"\n")
            for line in lines:
                self._show(line)

    def _show(self, line: bytes) -> None:
        if line:
            self._console.print(line.decode(errors="replace"), markup=False, highlight=False, soft_wrap=True)
