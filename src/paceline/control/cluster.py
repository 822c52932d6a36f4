"""The agents of one run: started, spoken to, listened to. All that they say comes through one queue."""

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline.hosts.base import AgentPipes, Host
from paceline.messages import FrameError, FromAgent, Ping, Pong, Receiver, Sender, Setup, ToAgent

_PINGS = 40
_PING_PATIENCE_S = 5.0
_NO_CLOCK = -1
"""Sequence number of a ping that only asks for a sign of life."""


class Heard(msgspec.Struct, frozen=True):
    host: str
    message: FromAgent


class Lost(msgspec.Struct, frozen=True):
    host: str
    detail: str


class Clock(msgspec.Struct, frozen=True):
    """How a host's clock relates to ours: ours = host's + offset, give or take the uncertainty."""

    offset_ns: int
    uncertainty_ns: int


class AgentLink:
    """One agent: a sender, and a thread that puts what it says into the queue."""

    def __init__(self, host: Host, log: Path, inbox: "queue.Queue[Heard | Lost]") -> None:
        self.host, self._log = host.name, log
        self._pipes: AgentPipes = host.start_agent(log)
        self._sender = Sender(self._pipes.stdin)
        self._receiver = Receiver[FromAgent](self._pipes.stdout, FromAgent)
        self._inbox = inbox
        self.heard = 0
        """Messages so far, of any kind."""
        self._pongs: queue.Queue[tuple[Pong, int] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, name=f"listen-{host.name}", daemon=True)
        self._thread.start()

    def send(self, message: ToAgent) -> None:
        with suppress(OSError, ValueError):  # The listener tells that it is gone.
            self._sender.send(message)

    def ping(self) -> None:
        self.send(Ping(_NO_CLOCK))

    def measure_clock(self) -> Clock | None:
        """The ping with the shortest way there and back bounds the offset best."""
        best: Clock | None = None
        for sequence in range(_PINGS):
            sent = time.monotonic_ns()
            self.send(Ping(sequence))
            try:
                answer = self._pongs.get(timeout=_PING_PATIENCE_S)
            except queue.Empty:
                return best
            if answer is None:
                return None
            pong, received = answer
            half = (received - sent) // 2
            if best is None or half < best.uncertainty_ns:
                best = Clock(offset_ns=sent + half - pong.t_ns, uncertainty_ns=half)
        return best

    def kill(self) -> None:
        self._pipes.kill()

    def close_stdin(self) -> None:
        with suppress(OSError):
            self._pipes.stdin.close()

    def end(self, patience_s: float) -> None:
        """Wait for the agent to end after its stdin was closed; kill it if it does not."""
        if not self._pipes.wait(patience_s):
            self._pipes.kill()
            self._pipes.wait(patience_s)
        self._thread.join(patience_s)
        self._pipes.stdout.close()

    def _listen(self) -> None:
        detail = "its pipe closed"
        try:
            while (message := self._receiver.receive()) is not None:
                self.heard += 1
                if isinstance(message, Pong):
                    if message.sequence == _NO_CLOCK:
                        continue
                    self._pongs.put((message, time.monotonic_ns()))
                else:
                    self._inbox.put(Heard(self.host, message))
        except (FrameError, OSError, ValueError) as error:
            detail = str(error)
        self._pongs.put(None)
        # What the agent complained of last says more than that it is gone.
        with suppress(OSError, IndexError):
            detail = self._log.read_text(errors="replace").strip().splitlines()[-1][:300]
        self._inbox.put(Lost(self.host, detail))


class Cluster:
    def __init__(self, hosts: Sequence[Host], logs: Path, spool: Path, sample_hz: float, lease_s: float = 0.0) -> None:
        """`lease_s`: the agents end themselves if they hear nothing for so long."""
        self.inbox: queue.Queue[Heard | Lost] = queue.Queue()
        self._links: dict[str, AgentLink] = {}
        try:
            for host in hosts:
                self._links[host.name] = AgentLink(host, logs / f"agent-{host.name}.log", self.inbox)
                self._links[host.name].send(Setup(str(spool / host.name), sample_hz, lease_s))
        except BaseException:
            self.close()
            raise

    def send(self, host: str, message: ToAgent) -> None:
        self._links[host].send(message)

    def next(self, within_s: float) -> "Heard | Lost | None":
        """What an agent says next; None if none says anything in time."""
        try:
            return self.inbox.get(timeout=within_s)
        except queue.Empty:
            return None

    def ping(self) -> None:
        """Ask every agent for a sign of life."""
        for link in self._links.values():
            link.ping()

    def heard(self, host: str) -> int:
        """How many messages have come from an agent."""
        return self._links[host].heard

    def kill(self, host: str) -> None:
        """End an agent that does not answer; its tasks end with it."""
        self._links[host].kill()

    def measure_clock(self, host: str) -> Clock | None:
        return self._links[host].measure_clock()

    def close(self, patience_s: float = 5.0) -> None:
        """Close every agent's stdin, which ends it and all its tasks."""
        for link in self._links.values():
            link.close_stdin()
        for link in self._links.values():
            link.end(patience_s)
