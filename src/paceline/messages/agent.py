"""Messages between an agent and the controller: over the agent's stdin and stdout, never over a port.

Times are nanoseconds of the sender's monotonic clock.
"""

from typing import Annotated, Literal

import msgspec

from paceline.messages.framing import Message
from paceline.messages.task import FromTask, ToTask

Count = Annotated[int, msgspec.Meta(le=2**63 - 1)]
"""An integer that fits into a parquet column. A larger one is refused when it arrives, not at the end of the run."""


class Hello(Message, frozen=True):
    """First message of an agent. `network` says whose counters it samples: 'host' or 'machine'."""

    host: str
    pid: int
    cores: int
    memory_bytes: int
    network: str


class Pong(Message, frozen=True):
    sequence: int
    t_ns: int


class TaskStarted(Message, frozen=True):
    task: str
    pid: int


class TaskMessage(Message, frozen=True):
    task: str
    message: FromTask


class TaskExited(Message, frozen=True):
    """`code` as in subprocess: negative is a signal. `oom` if the kernel killed it for memory."""

    task: str
    code: int
    t_ns: int
    oom: bool = False


class Records(Message, frozen=True):
    """Step records of one task, as the recorder wrote them (see recording.layout)."""

    task: str
    data: bytes


class Busy(Message, frozen=True):
    """A task is busy with something that is no step (`what`: eval, checkpoint, wait), or with steps again (None)."""

    task: str
    what: str | None


class Stacks(Message, frozen=True):
    """Where a task's threads are, in faulthandler's words; empty if it did not answer. `state` is its process's."""

    task: str
    text: str
    state: str


class Log(Message, frozen=True):
    task: str
    text: bytes


class TaskSample(msgspec.Struct, frozen=True, array_like=True):
    task: str
    cpu_s: float
    rss_bytes: Count
    threads: Count
    run_wait_s: float | None = None
    """Seconds its threads were ready to run but waited for a core so far; None if the system does not say."""


class LinkCount(msgspec.Struct, frozen=True, array_like=True):
    """Counters since boot of one kind of interface."""

    rx_bytes: Count = 0
    tx_bytes: Count = 0
    rx_packets: Count = 0
    tx_packets: Count = 0


class HostSample(msgspec.Struct, frozen=True, array_like=True):
    """Cumulative counters of one host at one moment; rates are made later, from differences."""

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


class Samples(Message, frozen=True):
    samples: list[HostSample]


FromAgent = Hello | Pong | TaskStarted | TaskMessage | TaskExited | Records | Busy | Stacks | Log | Samples


class Setup(Message, frozen=True):
    """First message to an agent: where it may put files, and how often to sample."""

    spool: str
    sample_hz: float
    lease_s: float = 0.0
    """The agent ends itself if it hears nothing for so long; 0: only if its stdin closes."""


class Ping(Message, frozen=True):
    sequence: int


class StartTask(Message, frozen=True):
    task: str
    job: msgspec.Raw
    env: dict[str, str]
    kind: Literal["train", "link"] = "train"


class SendToTask(Message, frozen=True):
    task: str
    message: ToTask


class Signal(Message, frozen=True):
    task: str
    number: int


class DumpStacks(Message, frozen=True):
    """Have every task write down where its threads are."""


ToAgent = Setup | Ping | StartTask | SendToTask | Signal | DumpStacks
