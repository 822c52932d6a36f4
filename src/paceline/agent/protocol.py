"""What controller, agent and task say to each other: typed messages in length-prefixed frames.

The controller speaks to an agent over the agent's stdin/stdout; the agent speaks to each of its
tasks over that task's stdin/stdout, in the same frames. Nothing here listens on a port.
All times are nanoseconds of the sender's monotonic clock.
"""

import struct
import threading
from typing import Annotated, BinaryIO, Generic, Literal, TypeVar

import msgspec

MAX_FRAME_BYTES = 64 * 2**20
_PIECE_BYTES = 2**20
_MOST = 2**63 - 1
_LENGTH = struct.Struct("<I")


Count = Annotated[int, msgspec.Meta(le=_MOST)]
"""A whole number that fits a table's column: what arrives is refused here, and not when the run is over."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of everything that crosses a pipe."""


# ---- task <-> controller (relayed by the agent) ----


class Bound(Message, frozen=True):
    """A task holds its ports and can be addressed by others."""

    addresses: dict[str, str]


class Ready(Message, frozen=True):
    """A task is connected and has everything compiled; it waits for Go."""


class Finished(Message, frozen=True):
    """A task did all it had to do. `outcome` is engine-neutral (see train.context.Outcome)."""

    outcome: msgspec.Raw


class Failed(Message, frozen=True):
    """A task ends with an error. `user_line` is the one line a user should see."""

    user_line: str
    traceback: str


class Stranded(Message, frozen=True):
    """A task cannot go on with its peers as they are: it has let go of them and waits to be given others."""

    user_line: str


class Attached(Message, frozen=True):
    """A file a task leaves with the run: `name` is relative to the task's own folder."""

    kind: str
    name: str
    data: bytes
    last: bool


HOST = "host"
"""The purpose of an address that is only a host's own."""


class Peers(Message, frozen=True):
    """Addresses of all tasks, by task and purpose; HOST is among them."""

    addresses: dict[str, dict[str, str]]


class Go(Message, frozen=True):
    """All are ready: the clock starts now."""


class Halt(Message, frozen=True):
    """Stop after the step under way and finish in good order."""


class Recall(Message, frozen=True):
    """Let go of all peers and say so: some of them are gone."""


class Regroup(Message, frozen=True):
    """Begin again with new peers. `job` is what a process that begins now would be given."""

    job: msgspec.Raw


class Dismissed(Message, frozen=True):
    """The agent has measured the task a last time: it may end. Only the agent says this."""


TaskSays = Bound | Ready | Finished | Failed | Stranded | Attached
TaskHears = Peers | Go | Halt | Recall | Regroup | Dismissed


# ---- agent -> controller ----


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


class TaskSaid(Message, frozen=True):
    task: str
    message: TaskSays


class TaskExited(Message, frozen=True):
    """`code` as in subprocess: negative is a signal. `oom` if the kernel killed it for memory."""

    task: str
    code: int
    t_ns: int
    oom: bool = False


class Records(Message, frozen=True):
    """Step records of one task, as the recorder wrote them (see train.recorder)."""

    task: str
    data: bytes


class Aside(Message, frozen=True):
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


AgentSays = Hello | Pong | TaskStarted | TaskSaid | TaskExited | Records | Aside | Stacks | Log | Samples


# ---- controller -> agent ----


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


class Tell(Message, frozen=True):
    task: str
    message: TaskHears


class Signal(Message, frozen=True):
    task: str
    number: int


class DumpStacks(Message, frozen=True):
    """Have every task write down where its threads are."""


AgentHears = Setup | Ping | StartTask | Tell | Signal | DumpStacks

M = TypeVar("M")
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder has to say of bytes that nobody encoded: wrong form, text that is none, lists in lists without end."""


class FrameError(Exception):
    """Bytes on the pipe are not frames of ours."""


class Sender:
    """Writes messages to a pipe; safe to share between threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        self.send_raw(self._encoder.encode(message))

    def send_raw(self, body: bytes) -> None:
        """A frame whose body is encoded already."""
        if len(body) > MAX_FRAME_BYTES:
            raise FrameError(f"a message of {len(body)} bytes is too large to send")
        with self._lock:
            self._stream.write(_LENGTH.pack(len(body)) + body)
            self._stream.flush()


class Receiver(Generic[M]):
    """Reads messages of one union type from a pipe until it closes."""

    def __init__(self, stream: BinaryIO, kind: object) -> None:
        self._stream = stream
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kind)

    def receive(self) -> M | None:
        """The next message; None when the other side closed the pipe (also in mid-frame)."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > MAX_FRAME_BYTES:
            raise FrameError(f"a frame claims {size} bytes")
        body = self._read(size)
        if body is None:
            return None
        try:
            return self._decoder.decode(body)
        except UNREADABLE as error:
            raise FrameError(str(error)) from None

    def _read(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            # Piece by piece: room is made for what comes, not for what was announced.
            part = self._stream.read(min(size - len(parts), _PIECE_BYTES))
            if not part:
                return None
            parts += part
        return bytes(parts)
