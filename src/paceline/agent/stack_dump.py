"""Collects the stacks of stuck tasks: each process writes its own stacks to a file when it receives a signal."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from paceline.messages import Stacks
from paceline.messages.stack_signal import DUMP_SIGNAL

TIMEOUT_S = 2.5
_POLL_INTERVAL_S = 0.02
_QUIET_S = 0.2
"""A dump counts as complete when its file has not grown for this long: a process may write slowly, and a dump has no
end mark."""
_MAX_BYTES = 256 * 1024


class StackRequest(msgspec.Struct):
    """A process that is asked for its stacks, and how much of its stack file was there before and is there now."""

    task: str
    pid: int
    path: Path
    start: int = 0
    """Size of the file before the signal, in bytes: earlier dumps end here."""
    size: int = 0
    grown_s: float = 0.0
    """When the file last grew, by the monotonic clock."""


def collect_stacks(requests: Sequence[StackRequest]) -> Iterator[Stacks]:
    """Yields the stacks of each process as soon as they are complete; all processes are signalled at once.

    A process that is stopped, has ended or does not write within `TIMEOUT_S` gives an empty text.
    """
    now = time.monotonic()
    for request in requests:
        request.start = request.size = _size(request.path)
        request.grown_s = now
        if DUMP_SIGNAL is not None:
            with suppress(OSError):
                os.kill(request.pid, DUMP_SIGNAL)
    pending, deadline = list(requests), now + TIMEOUT_S
    while pending:
        now = time.monotonic()
        for request in list(pending):
            size = _size(request.path)
            if size > request.size:
                request.size, request.grown_s = size, now
            is_complete = request.size > request.start and now - request.grown_s > _QUIET_S
            state = _state(request.pid)
            if is_complete or now > deadline or DUMP_SIGNAL is None or state in (psutil.STATUS_STOPPED, "gone"):
                pending.remove(request)
                yield Stacks(request.task, _read(request), state)
        if pending:
            time.sleep(_POLL_INTERVAL_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(request: StackRequest) -> str:
    try:
        with request.path.open("rb") as file:
            file.seek(request.start)
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _state(pid: int) -> str:
    """The state of the process as psutil names it, or 'gone'."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.Error:
        return "gone"
