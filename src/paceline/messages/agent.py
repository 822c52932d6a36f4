"""Messages between an agent and the controller, over the agent's stdin and stdout; an agent listens on no port.

Times are nanoseconds of the sender's monotonic clock.
"""

from typing import Annotated, Literal

import msgspec

from paceline.files.reference import FileRef
from paceline.messages.framing import Message
from paceline.messages.task import FromTask, ToTask

Count = Annotated[int, msgspec.Meta(le=2**63 - 1)]
"""An integer that fits into a parquet column: a larger one is rejected on arrival, not at the end of the run."""


class Hello(Message, frozen=True):
    """The answer to Setup, and the first message of an agent: what its host has."""

    host: str
    pid: int
    cores: int
    """Of the machine that the host is on, as is the memory."""
    memory_bytes: int
    network: str
    """Whose network counters it samples: 'host' or 'machine'."""
    python: str = ""
    """Version of Python."""
    paceline: str | None = None
    """Version of Paceline."""
    engines: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Version of the framework of each engine in Setup; None if it is not installed."""
    free_disk_bytes: int | None = None
    """Where the agent puts files."""
    machine: str = ""
    """The host name of the machine."""
    addresses: tuple[str, ...] = ()
    """The IP addresses of the machine's network interfaces, loopback excepted."""
    code: str = ""
    """A hash of Paceline's code on that host; empty if Setup did not ask for it."""
    free_memory_bytes: int | None = None


class Pong(Message, frozen=True):
    """The answer to a Ping with the same `sequence`; `t_ns` is when the agent answered."""

    sequence: int
    t_ns: int


class TaskStarted(Message, frozen=True):
    task: str
    pid: int


class TaskMessage(Message, frozen=True):
    task: str
    message: FromTask


class TaskExited(Message, frozen=True):
    """The process of a task has ended."""

    task: str
    code: int
    """The exit code as in subprocess: -N means that signal N ended the process."""
    t_ns: int
    oom: bool = False
    """Whether the kernel killed the process because memory ran out."""


class Records(Message, frozen=True):
    """Step records of one task, as the recorder wrote them (see recording.layout)."""

    task: str
    data: bytes


class Busy(Message, frozen=True):
    """A task is busy with an `activity` outside of steps (eval, checkpoint, wait), or makes steps again (None)."""

    task: str
    activity: str | None


class Stacks(Message, frozen=True):
    """The stacks of a task's threads, as faulthandler writes them; empty if the task did not respond."""

    task: str
    text: str
    state: str
    """The state of the process as psutil names it (such as sleeping or stopped), or 'gone'."""


class Log(Message, frozen=True):
    """New text in the log of a task."""

    task: str
    text: bytes


class TaskSample(msgspec.Struct, frozen=True, array_like=True):
    """Counters of one task, its child processes included, since it started."""

    task: str
    cpu_s: float
    rss_bytes: Count
    threads: Count
    run_wait_s: float | None = None
    """Seconds its threads were runnable but waited for a core; None if the system does not count it."""


class LinkCount(msgspec.Struct, frozen=True, array_like=True):
    """Counters since boot, summed over the network interfaces of one kind (external or loopback)."""

    rx_bytes: Count = 0
    tx_bytes: Count = 0
    rx_packets: Count = 0
    tx_packets: Count = 0


class HostSample(msgspec.Struct, frozen=True, array_like=True):
    """Cumulative counters of one host at one moment; rates are computed later from the differences."""

    t_ns: Count
    cpu_s: float
    """CPU seconds used by this host's tasks so far."""
    cores_busy_s: list[float]
    """Busy seconds of each core of the machine so far."""
    memory_bytes: Count
    """Resident memory of this host's tasks."""
    external: LinkCount
    loopback: LinkCount
    disk_read_bytes: Count
    disk_write_bytes: Count
    tasks: list[TaskSample]
    load_average: float | None = None
    """Of the machine, over the last minute; None if the system has none. It is read once a second, as the next."""
    memory_free_bytes: Count | None = None
    """Memory of the machine that programs can still get without swapping; None if it is not known."""
    quota_periods: Count | None = None
    """Periods of the CPU limit of the host's tasks so far; None without a limit. It is read once a second, as the next.
    """
    quota_throttled: Count | None = None
    """Periods in which the limit stopped the tasks."""


class Samples(Message, frozen=True):
    samples: list[HostSample]


class NeedFiles(Message, frozen=True):
    """The host does not have these files of an EnsureFiles: the controller sends each as FileParts."""

    sha256: tuple[str, ...]


class FilesFailed(Message, frozen=True):
    """The host cannot store a file that it needs. `line` is the one line that the user is shown."""

    line: str


FromAgent = (
    Hello
    | Pong
    | TaskStarted
    | TaskMessage
    | TaskExited
    | Records
    | Busy
    | Stacks
    | Log
    | Samples
    | NeedFiles
    | FilesFailed
)


class Setup(Message, frozen=True):
    """First message to an agent."""

    spool: str
    """The directory for the agent's files: step records, logs and stacks of its tasks. Empty on a host that does not
    share the controller's file system: the agent then makes a private directory and removes it at its end."""
    sample_hz: float
    """Samples of the host per second; 0 means none."""
    lease_s: float = 0.0
    """The agent exits after this many seconds without a message; 0 means that it exits only when its stdin closes."""
    engines: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """For each engine whose version Hello should report: the distributions that may provide its framework."""
    hash_code: bool = False
    """Whether Hello should say which code of Paceline the host has."""


class Ping(Message, frozen=True):
    sequence: int


class StartTask(Message, frozen=True):
    task: str
    job: msgspec.Raw
    """What the task is to do: a train.context.Job, or a messages.link_probe.LinkOrder if `kind` is link."""
    env: dict[str, str]
    """Environment variables for the task, in addition to those of the agent."""
    kind: Literal["train", "link"] = "train"
    folder_variables: tuple[str, ...] = ()
    """Environment variables that name a folder in the agent's private directory, if it has one."""


class SendToTask(Message, frozen=True):
    task: str
    message: ToTask


class Signal(Message, frozen=True):
    """Send the signal `number` to the process of a task."""

    task: str
    number: int


class DumpStacks(Message, frozen=True):
    """Make every task write the stacks of its threads; a Stacks message per task is the answer."""


class EnsureFiles(Message, frozen=True):
    """The tasks need these files. Messages to tasks that follow wait until the host has them."""

    files: tuple[FileRef, ...]
    keep: bool
    """Whether to keep the files for later runs; the others are removed at the end of the run."""


class FilePart(Message, frozen=True):
    """The next part of a file that the agent asked for with NeedFiles; an empty file has one empty part."""

    sha256: str
    data: bytes


ToAgent = Setup | Ping | StartTask | SendToTask | Signal | DumpStacks | EnsureFiles | FilePart
