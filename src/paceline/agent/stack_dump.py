"""Where the threads of stuck tasks are: each process writes it by itself when told to by a signal, if it still can."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from paceline.messages import Stacks

SIGNAL = getattr(signal, "SIGUSR2", None)
"""None where the system has no such signals: then there are no stacks, only states."""
PATIENCE_S = 2.5
_LOOK_EVERY_S = 0.02
_QUIET_S = 0.2
"""A dump is whole when nothing was added for so long: the process may be slow, and does not say that it is done."""
_MOST_BYTES = 256 * 1024


class StackRequest(msgspec.Struct):
    """A process that was told to dump its stacks."""

    task: str
    pid: int
    path: Path
    start: int = 0
    size: int = 0
    grown_s: float = 0.0


def stacks_of(asked: Sequence[StackRequest]) -> Iterator[Stacks]:
    """What each of them wrote, as soon as it is whole; all are told at once."""
    now = time.monotonic()
    for one in asked:
        one.start = one.size = _size(one.path)
        one.grown_s = now
        if SIGNAL is not None:
            with suppress(OSError):
                os.kill(one.pid, SIGNAL)
    waiting, deadline = list(asked), now + PATIENCE_S
    while waiting:
        now = time.monotonic()
        for one in list(waiting):
            size = _size(one.path)
            if size > one.size:
                one.size, one.grown_s = size, now
            whole = one.size > one.start and now - one.grown_s > _QUIET_S
            state = _state(one.pid)
            if whole or now > deadline or SIGNAL is None or state in (psutil.STATUS_STOPPED, "gone"):
                waiting.remove(one)
                yield Stacks(one.task, _read(one), state)
        if waiting:
            time.sleep(_LOOK_EVERY_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(one: StackRequest) -> str:
    try:
        with one.path.open("rb") as file:
            file.seek(one.start)
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _state(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.Error:
        return "gone"
