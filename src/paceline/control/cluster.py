"""Starts the agents of one run and exchanges messages with them. All their messages arrive in one queue."""

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import replace

from paceline.hosts.base import AgentPipes, Host
from paceline.messages import FrameError, FromAgent, Ping, Pong, Receiver, Sender, Setup, ToAgent
from paceline.messages.framing import skip_to_start_marker

_STARTS_AT_ONCE = 8
"""Agents that are started at the same time: a remote host takes a while to answer."""
_CLOCK_PINGS = 40
_PING_TIMEOUT_S = 5.0
_LIVENESS_PINGS = 1_000_000
"""Sequence numbers from here on belong to pings during the run, whose answers nobody waits for."""
_MAX_UNANSWERED = 60


_LOG_END_BYTES = 16 * 1024
"""How much of the end of an agent's log is read to find its last line."""


class Received(msgspec.Struct, frozen=True):
    """A message from the agent of `host`."""

    host: str
    message: FromAgent


class AgentClosed(msgspec.Struct, frozen=True):
    """The pipe from the agent of `host` is closed; no message follows."""

    host: str
    detail: str


class Clock(msgspec.Struct, frozen=True):
    """Controller's clock = host's clock + offset, within ± uncertainty, when the host's clock was `host_ns`."""

    offset_ns: int
    uncertainty_ns: int
    host_ns: int
    round_trip_ns: int = 0
    """The median of all pings of the measurement, from the controller to the agent and back."""

    @classmethod
    def of_ping(cls, sent_ns: int, answered_ns: int, received_ns: int) -> "Clock":
        """The answer was sent at some moment between the two readings of the controller's clock."""
        half_round_trip_ns = (received_ns - sent_ns) // 2
        return cls(sent_ns + half_round_trip_ns - answered_ns, half_round_trip_ns, answered_ns, received_ns - sent_ns)


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
        self._sent_ns: dict[int, int] = {}
        """When each ping during the run was sent that has not been answered yet, by sequence number."""
        self._next_ping = _LIVENESS_PINGS
        self._clock: Clock | None = None
        """The best measurement since the last `take_clock`."""
        self._pongs: queue.Queue[tuple[Pong, int] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, name=f"listen-{host.name}", daemon=True)
        self._thread.start()

    def send(self, message: ToAgent) -> None:
        with suppress(OSError, ValueError):  # The listener thread reports a closed pipe.
            self._sender.send(message)

    def ping(self) -> None:
        """Send a ping without waiting for its answer. The answer shows that the agent lives, and measures its clock."""
        sequence, self._next_ping = self._next_ping, self._next_ping + 1
        self._sent_ns[sequence] = time.monotonic_ns()
        self._sent_ns.pop(sequence - _MAX_UNANSWERED, None)
        self.send(Ping(sequence))

    def take_clock(self) -> Clock | None:
        """The most precise clock measurement by the pings since the last call; None if none was answered."""
        clock, self._clock = self._clock, None
        return clock

    def measure_clock(self) -> Clock | None:
        """Clock offset by the ping with the shortest round trip; None if the agent answers no ping in time."""
        best: Clock | None = None
        round_trips_ns: list[int] = []
        for sequence in range(_CLOCK_PINGS):
            sent_ns = time.monotonic_ns()
            self.send(Ping(sequence))
            try:
                answer = self._pongs.get(timeout=_PING_TIMEOUT_S)
            except queue.Empty:
                return best
            if answer is None:
                return None
            pong, received_ns = answer
            best = _more_precise(best, Clock.of_ping(sent_ns, pong.t_ns, received_ns))
            round_trips_ns.append(received_ns - sent_ns)
        return best and replace(best, round_trip_ns=int(median(round_trips_ns)))

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

    def _pong(self, pong: Pong, received_ns: int) -> None:
        if pong.sequence < _LIVENESS_PINGS:
            self._pongs.put((pong, received_ns))
        elif (sent_ns := self._sent_ns.pop(pong.sequence, None)) is not None:
            self._clock = _more_precise(self._clock, Clock.of_ping(sent_ns, pong.t_ns, received_ns))

    def _listen(self) -> None:
        detail = "its pipe was closed"
        try:
            skip_to_start_marker(self._pipes.stdout)
            while (message := self._receiver.receive()) is not None:
                self.received += 1
                if isinstance(message, Pong):
                    self._pong(message, time.monotonic_ns())
                else:
                    self._inbox.put(Received(self.host, message))
        except (FrameError, OSError, ValueError) as error:
            detail = str(error)
        self._pongs.put(None)
        # The last line of its log, if there is one, explains more than a closed pipe.
        with suppress(OSError, IndexError), self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - _LOG_END_BYTES))
            detail = log.read().decode(errors="replace").strip().splitlines()[-1][:300]
        self._inbox.put(AgentClosed(self.host, detail))


def _more_precise(one: Clock | None, other: Clock) -> Clock:
    return other if one is None or other.uncertainty_ns < one.uncertainty_ns else one


class Cluster:
    def __init__(self, hosts: Sequence[Host], logs: Path, spool: Path | None, setup: Setup) -> None:
        """Start an agent on each host. `setup` is sent to each, with a folder of its own below `spool`.

        `spool` is None if the hosts do not share a file system with this machine.
        """
        self.inbox: queue.Queue[Received | AgentClosed] = queue.Queue()
        self._agents: dict[str, AgentConnection] = {}

        def start(host: Host) -> None:
            agent = AgentConnection(host, logs / f"agent-{host.name}.log", self.inbox)
            self._agents[host.name] = agent
            agent.send(replace(setup, spool=str(spool / host.name) if spool else ""))

        try:
            with ThreadPoolExecutor(_STARTS_AT_ONCE) as pool:
                list(pool.map(start, hosts))
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

    def take_clock(self, host: str) -> Clock | None:
        return self._agents[host].take_clock()

    def close(self, timeout_s: float = 5.0) -> None:
        """Close every agent's stdin, which ends it and all its tasks."""
        for agent in self._agents.values():
            agent.close_stdin()
        for agent in self._agents.values():
            agent.end(timeout_s)
