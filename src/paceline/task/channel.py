"""A task's line to the controller, relayed by its agent over this process's stdin and stdout."""

import os
import threading
from typing import BinaryIO, Generic, TypeVar

import msgspec

from paceline.errors import PeersGone, RunError
from paceline.messages import (
    HOST,
    Attached,
    Bound,
    Disconnect,
    Disconnected,
    Failed,
    Finished,
    Go,
    Halt,
    MayExit,
    Message,
    Peers,
    Ready,
    Reassign,
    Receiver,
    Sender,
    ToTask,
)

Order = TypeVar("Order", bound=msgspec.Struct)
_CHUNK_BYTES = 4 * 2**20
_DISMISSAL_DEADLINE_S = 1.0
EXIT_ORPHANED = 70


class Channel(Generic[Order]):
    """Implements Rendezvous. When the pipe closes, the run is over and this process ends at once."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, order: type[Order]) -> None:
        self.halted, self.recalled = threading.Event(), threading.Event()
        self._sender = Sender(stdout)
        self._order = Receiver[Order](stdin, order).receive()
        self._hears = Receiver[ToTask](stdin, ToTask)
        self._peers: dict[str, dict[str, str]] = {}
        self._introduced, self._opened, self._dismissed = threading.Event(), threading.Event(), threading.Event()
        self._met = False
        self._order_type = order
        self._regrouped = threading.Event()
        threading.Thread(target=self._listen, name="channel", daemon=True).start()

    @classmethod
    def take_over_stdio(cls, order: type[Order]) -> "Channel[Order]":
        """Keep stdin and stdout for the channel: what frameworks print goes to stderr, the task's log."""
        stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        return cls(stdin, stdout, order)

    @property
    def order(self) -> Order:
        """What this process is to do."""
        if self._order is None:
            os._exit(EXIT_ORPHANED)
        return self._order

    def meet(self, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
        self._met = True
        self._say(Bound(addresses))
        self._wait(self._introduced)
        return self._peers

    def names_at(self, address: str) -> str:
        """The tasks on the host of that address, as far as they are known."""
        names = [task for task, addresses in self._peers.items() if addresses.get(HOST) == address]
        return " and ".join(names) or "another host"

    def start_together(self) -> None:
        if not self._met:
            self.meet({})
        self._say(Ready())
        self._wait(self._opened)

    def regroup(self, why: str) -> Order:
        self._say(Disconnected(why))
        self._regrouped.wait()
        self._regrouped.clear()
        if self.halted.is_set():
            raise RunError(why)
        return self.order

    def attach(self, kind: str, name: str, data: bytes) -> None:
        for start in range(0, max(len(data), 1), _CHUNK_BYTES):
            part = data[start : start + _CHUNK_BYTES]
            self._say(Attached(kind, name, part, last=start + _CHUNK_BYTES >= len(data)))

    def finished(self, outcome: msgspec.Struct) -> None:
        """The last word; when this returns, the agent has seen all it wanted of this process."""
        self._say(Finished(msgspec.Raw(msgspec.msgpack.encode(outcome))))
        self._dismissed.wait(_DISMISSAL_DEADLINE_S)

    def failed(self, user_line: str, traceback: str) -> None:
        """The last word, of a task that could not do what it had to."""
        self._say(Failed(user_line, traceback))
        self._dismissed.wait(_DISMISSAL_DEADLINE_S)

    def _wait(self, event: threading.Event) -> None:
        event.wait()
        if self.recalled.is_set():
            raise PeersGone("recalled before it began")

    def _begin_again(self, job: bytes) -> None:
        self._order = msgspec.msgpack.decode(job, type=self._order_type)
        self._met = False
        for event in (self.recalled, self._introduced, self._opened):
            event.clear()
        self._regrouped.set()

    def _say(self, message: Message) -> None:
        try:
            self._sender.send(message)
        except OSError:
            os._exit(EXIT_ORPHANED)

    def _listen(self) -> None:
        try:
            while message := self._hears.receive():
                match message:
                    case Peers(addresses):
                        self._peers = addresses
                        self._introduced.set()
                    case Go():
                        self._opened.set()
                    case Halt():
                        self.halted.set()
                        self._regrouped.set()  # For one who waits for peers, that is the end.
                    case Disconnect():
                        for event in (self.recalled, self._introduced, self._opened):
                            event.set()
                    case Reassign(job):
                        self._begin_again(bytes(job))
                    case MayExit():
                        self._dismissed.set()
        finally:
            os._exit(EXIT_ORPHANED)
