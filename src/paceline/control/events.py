"""Events of a run, and the instructions that the supervisor answers them with. The run controller carries these out."""

import msgspec

from paceline.store.result import Status
from paceline.train.context import Outcome


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a task that ends during training may be replaced. The default allows no restart."""

    rejoin: frozenset[str] = frozenset()
    """Tasks that can be restarted alone: the other tasks continue, or wait for them."""
    all_tasks: bool = False
    """Whether all tasks may be restarted together from the last checkpoint."""
    reassignable: frozenset[str] = frozenset()
    """Tasks whose process survives a restart of all tasks: they disconnect from their peers and get a new job."""
    max_restarts: int = 0
    """Upper limit for restarts of either kind in one run."""


# ---- events ----


class AgentJoined(msgspec.Struct, frozen=True):
    host: str


class AgentLost(msgspec.Struct, frozen=True):
    host: str
    detail: str


class HostFailed(msgspec.Struct, frozen=True):
    """A host cannot do its part of the run, though its agent answers. `line` says why."""

    host: str
    line: str


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
    permanent: bool = False
    """Whether another attempt would fail in the same way, as with an error in the user's code."""
    in_workload: bool = False
    """Whether the cause is the user's own workload."""


class TaskDisconnected(msgspec.Struct, frozen=True):
    """A task has closed its connections to its peers and waits for a new job."""

    task: str
    user_line: str


class TaskExited(msgspec.Struct, frozen=True):
    task: str
    code: int
    oom: bool = False


class TaskStuck(msgspec.Struct, frozen=True):
    """A task makes no progress; the stacks of all tasks are stored. `detail` is the line for the user."""

    task: str | None
    """None if the stacks do not show which of several tasks causes it."""
    detail: str


class StoreLost(msgspec.Struct, frozen=True):
    """Measurements can no longer be written to the run directory."""

    detail: str


INTERRUPTED_BY_USER = "interrupted by the user"


class Interrupted(msgspec.Struct, frozen=True):
    """The controller received a signal that asks it to end the run."""

    reason: str = INTERRUPTED_BY_USER


class TimeLimitReached(msgspec.Struct, frozen=True):
    """The training took as long as the run may take. `detail` is the line for the user."""

    detail: str


class Tick(msgspec.Struct, frozen=True):
    """Time passed: deadlines are checked."""


Event = (
    AgentJoined
    | AgentLost
    | HostFailed
    | TaskBound
    | TaskReady
    | TaskFinished
    | TaskFailed
    | TaskDisconnected
    | TaskExited
    | TaskStuck
    | StoreLost
    | Interrupted
    | TimeLimitReached
    | Tick
)


# ---- instructions ----


class StartTasks(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]
    attempt: int = 0
    """Number of restarts in this run so far, including this one; 0 for the first start."""
    all_tasks: bool = True
    """Whether all tasks start together. False: one task rejoins the running ones."""
    disconnected: tuple[str, ...] = ()
    """Those of `tasks` whose process is still alive: they get a new job instead of a new process."""


class SendPeers(msgspec.Struct, frozen=True):
    """Send the addresses of all tasks to `tasks`."""

    tasks: tuple[str, ...]
    addresses: dict[str, dict[str, str]]


class OpenBarrier(msgspec.Struct, frozen=True):
    """Let `tasks` begin to train."""

    tasks: tuple[str, ...]
    attempt: int = 0


class AskToHalt(msgspec.Struct, frozen=True):
    """Ask tasks to finish after the current step."""

    tasks: tuple[str, ...]


class DisconnectTasks(msgspec.Struct, frozen=True):
    """Ask tasks to close their connections to their peers."""

    tasks: tuple[str, ...]


class KillTasks(msgspec.Struct, frozen=True):
    tasks: tuple[str, ...]


class RecordIncident(msgspec.Struct, frozen=True):
    """Store an incident with the run."""

    what: str
    task: str | None = None
    host: str | None = None


class End(msgspec.Struct, frozen=True):
    status: Status
    reason: str | None = None
    refused: bool = False
    """Whether the run failed before training began, because of the user's own workload."""


Instruction = StartTasks | SendPeers | OpenBarrier | AskToHalt | DisconnectTasks | KillTasks | RecordIncident | End
