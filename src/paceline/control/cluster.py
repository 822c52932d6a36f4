"""Starts the agents of one run and exchanges messages with them. All their messages arrive in one queue."""

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from paceline.hosts.base import AgentPipes, Host
from paceline.messages import FrameError, FromAgent, Ping, Pong, Receiver, Sender, Setup, ToAgent

_CLOCK_PINGS = 40
_PING_TIMEOUT_S = 5.0
_LIVENESS_PING = -1
"""Sequence number of a ping that only checks whether the agent answers."""


class Received(msgspec.Struct, frozen=True):
    """A message from the agent of `host`."""

    host: str
    message: FromAgent


class AgentClosed(msgspec.Struct, frozen=True):
    """The pipe from the agent of `host` is closed; no message follows."""

    host: str
    detail: str


class Clock(msgspec.Struct, frozen=True):
    """Controller's clock = host's clock + offset, within ± uncertainty."""

    offset_ns: int
    uncertainty_ns: int


class AgentConnection:
    """One agent: a sender, and a thread that puts its messages into the queue."""

    def __init__(self, host: Host, log: Path, inbox: "queue.Queue[Received | AgentClosed]") -> None:
        self.host, self._log = host.name, log
        self._pipes: AgentPipes = host.start_agent(log)
        self._sender = Sender(self._pipes.stdin)
        self._receiver = Receiver[FromAgent](self._pipes.stdout, FromAgent)
        self._inbox = inbox
        self.received = 0
        """Number of messages so far, of any type."""
        self._pongs: queue.Queue[tuple[Pong, int] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, name=f"listen-{host.name}", daemon=True)
        self._thread.start()

    def send(self, message: ToAgent) -> None:
        with suppress(OSError, ValueError):  # The listener thread reports a closed pipe.
            self._sender.send(message)

    def ping(self) -> None:
        self.send(Ping(_LIVENESS_PING))

    def measure_clock(self) -> Clock | None:
        """Clock offset by the ping with the shortest round trip; None if the agent answers no ping in time."""
        best: Clock | None = None
        for sequence in range(_CLOCK_PINGS):
            sent_ns = time.monotonic_ns()
            self.send(Ping(sequence))
            try:
                answer = self._pongs.get(timeout=_PING_TIMEOUT_S)
            except queue.Empty:
                return best
            if answer is None:
                return None
            pong, received = answer
            half_round_trip_ns = (received - sent_ns) // 2
            if best is None or half_round_trip_ns < best.uncertainty_ns:
                best = Clock(offset_ns=sent_ns + half_round_trip_ns - pong.t_ns, uncertainty_ns=half_round_trip_ns)
        return best

    def kill(self) -> None:
        self._pipes.kill()

    def close_stdin(self) -> None:
        with suppress(OSError):
            self._pipes.stdin.close()

    def end(self, timeout_s: float) -> None:
        """Wait for the agent to end after its stdin was closed; kill it if it does not."""
        if not self._pipes.wait(timeout_s):
            self._pipes.kill()
            self._pipes.wait(timeout_s)
        self._thread.join(timeout_s)
        self._pipes.stdout.close()

    def _listen(self) -> None:
        detail = "its pipe was closed"
        try:
            while (message := self._receiver.receive()) is not None:
                self.received += 1
                if isinstance(message, Pong):
                    if message.sequence == _LIVENESS_PING:
                        continue
                    self._pongs.put((message, time.monotonic_ns()))
                else:
                    self._inbox.put(Received(self.host, message))
        except (FrameError, OSError, ValueError) as error:
            detail = str(error)
        self._pongs.put(None)
        # The last line of its log, if there is one, explains more than a closed pipe.
        with suppress(OSError, IndexError):
            detail = self._log.read_text(errors="replace").strip().splitlines()[-1][:300]
        self._inbox.put(AgentClosed(self.host, detail))


class Cluster:
    def __init__(self, hosts: Sequence[Host], logs: Path, spool: Path, setup: Setup) -> None:
        """Start an agent on each host. `setup` is sent_ns to each, with a folder of its own below `spool`."""
        self.inbox: queue.Queue[Received | AgentClosed] = queue.Queue()
        self._agents: dict[str, AgentConnection] = {}
        try:
            for host in hosts:
                self._agents[host.name] = AgentConnection(host, logs / f"agent-{host.name}.log", self.inbox)
                self._agents[host.name].send(replace(setup, spool=str(spool / host.name)))
        except BaseException:
            self.close()
            raise

    def send(self, host: str, message: ToAgent) -> None:
        self._agents[host].send(message)

    def next(self, timeout_s: float) -> "Received | AgentClosed | None":
        """The next message of any agent; None after `timeout_s` without one."""
        try:
            return self.inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def ping(self) -> None:
        """Send a ping to every agent. Its answer increases `received`, which the caller compares."""
        for agent in self._agents.values():
            agent.ping()

    def received(self, host: str) -> int:
        """Number of messages received from an agent so far."""
        return self._agents[host].received

    def kill(self, host: str) -> None:
        """End an agent that does not answer; its tasks end with it."""
        self._agents[host].kill()

    def measure_clock(self, host: str) -> Clock | None:
        return self._agents[host].measure_clock()

    def close(self, timeout_s: float = 5.0) -> None:
        """Close every agent's stdin, which ends it and all its tasks."""
        for agent in self._agents.values():
            agent.close_stdin()
        for agent in self._agents.values():
            agent.end(timeout_s)
