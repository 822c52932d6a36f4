"""What can happen in a run, and what can be done about it: the words between the supervisor and who carries out."""

import msgspec

from paceline.store.result import Status
from paceline.train.context import Outcome


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done about a task that dies while the others train."""

    rejoin: frozenset[str] = frozenset()
    """Tasks that can come back by themselves while the others go on, or wait for them."""
    whole: bool = False
    """Whether all tasks may be started again together, from the last checkpoint."""
    regroup: frozenset[str] = frozenset()
    """Tasks whose processes need not end for that: they let go of their peers and are given others."""
    restarts: int = 0
    """How often at most, one way or the other."""


# ---- events ----


class AgentJoined(msgspec.Struct, frozen=True):
    host: str


class AgentLost(msgspec.Struct, frozen=True):
    host: str
    detail: str


class TaskBound(msgspec.Struct, frozen=True):
    task: str
    addresses: dict[str, str]


class TaskReady(msgspec.Struct, frozen=True):
    task: str


class TaskFinished(msgspec.Struct, frozen=True):
    task: str
    outcome: Outcome


class TaskFailed(msgspec.Struct, frozen=True):
    task: str
    user_line: str


class TaskDisconnected(msgspec.Struct, frozen=True):
    """A task has let go of its peers and waits to be given others."""

    task: str
    user_line: str


class TaskExited(msgspec.Struct, frozen=True):
    task: str
    code: int
    oom: bool = False


class TaskStuck(msgspec.Struct, frozen=True):
    """A task makes no progress; where every task is has been written down. `detail` is the whole line."""

    task: str | None
    """None if nothing tells who of several it is."""
    detail: str


class StoreLost(msgspec.Struct, frozen=True):
    """What is measured can no longer be kept."""

    detail: str


class Interrupted(msgspec.Struct, frozen=True):
    """The user pressed Ctrl-C once more."""


class Tick(msgspec.Struct, frozen=True):
    """Time passed."""


Event = (
    AgentJoined
    | AgentLost
    | TaskBound
    | TaskReady
    | TaskFinished
    | TaskFailed
    | TaskDisconnected
    | TaskExited
    | TaskStuck
    | StoreLost
    | Interrupted
    | Tick
)


# ---- instructions ----


class StartTasks(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]
    attempt: int = 0
    """How many restarts there were, this one included."""
    whole: bool = True
    """All are started together; else one comes back to the others."""
    stranded: tuple[str, ...] = ()
    """Those of them that are there and only need to be told."""


class SendPeers(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]
    addresses: dict[str, dict[str, str]]


class OpenBarrier(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]
    attempt: int = 0


class AskToHalt(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]


class DisconnectTasks(msgspec.Struct, frozen=True):
    """Have them let go of their peers."""

    tasks: tuple[str, ...]


class KillTasks(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]


class RecordIncident(msgspec.Struct, frozen=True):
    """An incident for the run's record."""

    what: str
    task: str | None = None
    host: str | None = None


class End(msgspec.Struct, frozen=True):
    status: Status
    reason: str | None = None


Instruction = StartTasks | SendPeers | OpenBarrier | AskToHalt | DisconnectTasks | KillTasks | RecordIncident | End
