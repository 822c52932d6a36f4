"""Failures of a run, ranked by how close they are to the root cause."""

import signal

import msgspec

from paceline.control.events import TaskExited, TaskFailed

ROOT_CAUSE = -1
"""Rank of a failure that no other failure can have caused, e.g. a task killed by SIGKILL."""


class Failure(msgspec.Struct, frozen=True):
    rank: int
    """A lower rank is closer to the root cause. At ROOT_CAUSE no other report needs to be waited for."""
    task: str | None
    host: str | None
    line: str
    permanent: bool = False
    """Whether a restart would end in the same failure."""
    workload_error: str | None = None
    """The error alone, without the task, if the user's own workload is its cause."""


def failure_of_exit(event: TaskExited, error: TaskFailed | None, host: str) -> Failure:
    """The failure of a task that exited; `error` is what it reported before, if anything."""
    where = describe(event.task, host)
    if event.oom:
        return Failure(ROOT_CAUSE, event.task, host, f"{where} was killed: out of memory")
    if error:
        return failure_of_error(error, host)
    if event.code < 0:
        rank = ROOT_CAUSE if event.code == -signal.SIGKILL else 0
        return Failure(rank, event.task, host, f"{where} was killed by {_signal_name(-event.code)}")
    return Failure(1, event.task, host, f"{where} exited with code {event.code} before it had finished")


def failure_of_error(error: TaskFailed, host: str) -> Failure:
    # A permanent error is the task's own. The others may follow from the failure of a peer.
    line = f"{describe(error.task, host)} failed: {error.user_line}"
    rank = 2 if error.permanent else 3
    return Failure(rank, error.task, host, line, error.permanent, error.user_line if error.in_workload else None)


def describe(task: str, host: str) -> str:
    return f"{task} on {host}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
