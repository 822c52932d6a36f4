"""A task's connection to the controller: messages over stdin and stdout of this process, relayed by the agent."""

import gc
import os
import threading
from typing import BinaryIO, Generic, TypeVar

import msgspec

from paceline.errors import PeersGone
from paceline.messages import (
    HOST,
    HOST_NAME,
    Attached,
    Bound,
    Disconnect,
    Disconnected,
    Failed,
    Finished,
    Go,
    Halt,
    LastStep,
    MayExit,
    Message,
    Peers,
    Ready,
    Reassign,
    Receiver,
    Sender,
    ThreadsChosen,
    ToTask,
)

Order = TypeVar("Order", bound=msgspec.Struct)
"""What this process is to do: a Job."""
_CHUNK_BYTES = 4 * 2**20
_MAY_EXIT_TIMEOUT_S = 1.0
"""How long to wait for the agent's last measurement; the result is sent already, so the task exits without it then."""
EXIT_ORPHANED = 70
"""The exit code of a task whose agent has closed the pipe."""


def stdio_pipes() -> tuple[BinaryIO, BinaryIO]:
    """This process's stdin and stdout, for messages only; what frameworks print goes to stderr, the task's log."""
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return stdin, stdout


class Channel(Generic[Order]):
    """Implements train.context.Rendezvous. When the pipe closes, the run is over and this process exits at once."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, order_type: type[Order]) -> None:
        self.halted, self.disconnect_requested = threading.Event(), threading.Event()
        self.last_step: int | None = None
        self._sender = Sender(stdout)
        self._order = Receiver[Order](stdin, order_type).receive()
        self._receiver = Receiver[ToTask](stdin, ToTask)
        self._peers: dict[str, dict[str, str]] = {}
        self._has_peers, self._may_start, self._may_exit = threading.Event(), threading.Event(), threading.Event()
        self._bound_sent = False
        self.has_started = False
        """Whether this process has begun to train."""
        self._order_type = order_type
        self._reassigned = threading.Event()
        threading.Thread(target=self._receive_messages, name="channel", daemon=True).start()

    @classmethod
    def take_over_stdio(cls, order_type: type[Order]) -> "Channel[Order]":
        """A channel on this process's stdin and stdout."""
        return cls(*stdio_pipes(), order_type)

    @property
    def order(self) -> Order:
        """What this process is to do; exits if the pipe was closed before it arrived."""
        if self._order is None:
            os._exit(EXIT_ORPHANED)
        return self._order

    def exchange_addresses(self, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
        self._bound_sent = True
        self._send(Bound(addresses))
        self._wait(self._has_peers)
        return self._peers

    def tasks_at(self, address: str) -> str:
        """The tasks on the host with this address, and the host; 'another host' if they are not known yet."""
        found = {task: addresses for task, addresses in self._peers.items() if addresses.get(HOST) == address}
        host = next((addresses[HOST_NAME] for addresses in found.values() if HOST_NAME in addresses), None)
        return (" and ".join(found) or "another host") + (f" on {host}" if host else "")

    def report_threads(self, threads: int) -> None:
        self._send(ThreadsChosen(threads))

    def start_together(self) -> None:
        if not self._bound_sent:
            self.exchange_addresses({})
        # The objects of the framework and of the model stay until the end of the run, so full garbage collections
        # during training need not look at them again.
        gc.collect()
        gc.freeze()
        self._send(Ready())
        self._wait(self._may_start)
        self.has_started = True

    def report_ready(self) -> None:
        self._send(Ready())

    def announce_last_step(self, step: int) -> None:
        self._send(LastStep(step))

    def wait_for_new_job(self, why: str) -> Order:
        self._send(Disconnected(why))
        self._reassigned.wait()
        self._reassigned.clear()
        if self.halted.is_set():
            raise PeersGone(why)
        return self.order

    def attach(self, kind: str, name: str, data: bytes) -> None:
        for start in range(0, max(len(data), 1), _CHUNK_BYTES):
            chunk = data[start : start + _CHUNK_BYTES]
            self._send(Attached(kind, name, chunk, last=start + _CHUNK_BYTES >= len(data)))

    def finished(self, outcome: msgspec.Struct) -> None:
        """Send the result. When this returns, the agent has measured this process for the last time."""
        self._send(Finished(msgspec.Raw(msgspec.msgpack.encode(outcome))))
        self._may_exit.wait(_MAY_EXIT_TIMEOUT_S)

    def failed(self, user_line: str, traceback: str, *, permanent: bool = False, in_workload: bool = False) -> None:
        """Send the error that ends this task (see messages.Failed); returns like `finished`."""
        self._send(Failed(user_line, traceback, permanent, in_workload).shortened())
        self._may_exit.wait(_MAY_EXIT_TIMEOUT_S)

    def _wait(self, event: threading.Event) -> None:
        event.wait()
        if self.disconnect_requested.is_set():
            raise PeersGone("the controller asked this task to disconnect before training began")

    def _start_again(self, job: bytes) -> None:
        self._order = msgspec.msgpack.decode(job, type=self._order_type)
        self._bound_sent = False
        for event in (self.disconnect_requested, self._has_peers, self._may_start):
            event.clear()
        self._reassigned.set()

    def _send(self, message: Message) -> None:
        try:
            self._sender.send(message)
        except OSError:
            os._exit(EXIT_ORPHANED)

    def _receive_messages(self) -> None:
        try:
            while message := self._receiver.receive():
                match message:
                    case Peers(addresses):
                        self._peers = addresses
                        self._has_peers.set()
                    case Go():
                        self._may_start.set()
                    case Halt():
                        self.halted.set()
                        self._reassigned.set()  # Wakes up `wait_for_new_job`, which then fails: no new peers will come.
                    case LastStep(step):
                        self.last_step = step
                    case Disconnect():
                        # Set the other events as well to wake up `_wait`, which then raises PeersGone.
                        for event in (self.disconnect_requested, self._has_peers, self._may_start):
                            event.set()
                    case Reassign(job):
                        self._start_again(bytes(job))
                    case MayExit():
                        self._may_exit.set()
        finally:
            os._exit(EXIT_ORPHANED)
