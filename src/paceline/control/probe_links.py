"""Runs a link probe on each host, and lets them check and measure the links between the hosts."""

import queue
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from paceline import messages
from paceline.control.cluster import AgentClosed, Cluster
from paceline.control.link_schedule import Pair, measured_pairs, rounds_of, transfer_s
from paceline.errors import HostError
from paceline.hosts.base import Host
from paceline.messages.link_probe import LinkMeasurement, LinkOrder, LinkProperty, LinksMeasured, MeasureLinks

_START_S = 30.0
"""How long agents and probes may take to start."""
_LEASE_S = 120.0
"""An agent ends by itself after this long without a message; longer than any measurement takes."""
_ANSWER_S = 15.0
"""How long a probe may take to answer, beside the time for which it sends: more than its own timeouts together."""
PROBE_ERRORS = (OSError, RuntimeError, queue.Empty, *messages.DECODE_ERRORS)
"""What `open_probes` and the methods of Probes raise if agents or probes fail, whatever the links are like."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The measured link from one host to another."""

    sender: str
    receiver: str
    mb_s: float | None = None
    rtt_s: float | None = None
    """Median round-trip time."""
    rtt_min_s: float | None = None
    error: str | None = None
    """Why it could not be measured."""


class Probes:
    """The link probes of all hosts; a context manager that starts and ends them."""

    def __init__(self, hosts: Sequence[Host], scratch: Path) -> None:
        """Agents and probes write their logs and files below `scratch`."""
        self._hosts = hosts
        scratch.mkdir(parents=True, exist_ok=True)
        self._cluster = Cluster(hosts, scratch, None, messages.Setup("", sample_hz=0, lease_s=_LEASE_S))
        self._addresses: dict[str, dict[str, str]] = {}

    def __enter__(self) -> "Probes":
        try:
            self._start()
        except BaseException:
            self._cluster.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def check_reachable(self) -> None:
        """Let every host connect to every other one; HostError names a pair that cannot and the address."""
        names = [host.name for host in self._hosts]
        pairs = [Pair(sender, receiver) for sender in names for receiver in names if sender != receiver]
        unreachable = {pair: found.error for pair, found in self._measure(pairs, "reach").items() if found.error}
        if unreachable:
            raise HostError(unreachable_line(unreachable, self._addresses))

    def measure(self, *, one_machine: bool) -> list[Link]:
        """The round-trip times, then the rates, of the links that the schedule chooses."""
        pairs = measured_pairs([host.name for host in self._hosts])
        rounds = rounds_of(pairs, one_machine=one_machine)
        times: dict[Pair, LinkMeasurement] = {}
        for one in rounds:
            times |= self._measure(one, "rtt")
        rates: dict[Pair, LinkMeasurement] = {}
        for one in rounds:
            longest_s = max((times[pair].rtt_s or 0.0 for pair in one), default=0.0)
            rates |= self._measure(one, "rate", transfer_s(len(rounds), longest_s))
        return [_link(pair, times[pair], rates[pair]) for pair in pairs]

    def _start(self) -> None:
        token = secrets.token_hex(16)
        for host in self._hosts:
            order = LinkOrder(host=host.name, address=host.address, ports=host.ports, token=token)
            job = msgspec.Raw(msgspec.msgpack.encode(order))
            self._cluster.send(host.name, messages.StartTask(_task(host.name), job, {}, "link"))
        deadline = time.monotonic() + _START_S
        while len(self._addresses) < len(self._hosts):
            host_name, message = self._next(deadline)
            if isinstance(message, messages.Bound):
                self._addresses[host_name] = message.addresses
        for host in self._hosts:
            self._send(host.name, messages.Peers(self._addresses))

    def _measure(self, pairs: Sequence[Pair], what: LinkProperty, seconds: float = 0.0) -> dict[Pair, LinkMeasurement]:
        """Measure these links at the same time."""
        receivers: dict[str, list[str]] = {}
        for pair in pairs:
            receivers.setdefault(pair.sender, []).append(pair.receiver)
        for sender, its_receivers in receivers.items():
            self._send(sender, MeasureLinks(tuple(its_receivers), what, seconds))
        deadline = time.monotonic() + _ANSWER_S + seconds
        measured: dict[str, LinksMeasured] = {}
        while len(measured) < len(receivers):
            host, message = self._next(deadline)
            if isinstance(message, LinksMeasured):
                measured[host] = message
        found = {Pair(sender, one.receiver): one for sender, answer in measured.items() for one in answer.measurements}
        # In the order of the request, whichever host answered first.
        return {pair: found.get(pair, LinkMeasurement(receiver=pair.receiver, error="no answer")) for pair in pairs}

    def _send(self, host: str, message: messages.ToTask) -> None:
        self._cluster.send(host, messages.SendToTask(_task(host), message))

    def _next(self, deadline: float) -> tuple[str, messages.FromTask | None]:
        """The next message of a probe and its host, None for other messages; an error if an agent or probe ended."""
        received = self._cluster.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        if isinstance(received, AgentClosed):
            raise RuntimeError(f"lost the agent of {received.host}: {received.detail}")
        match received.message:
            case messages.TaskMessage(_, messages.Failed(line, _)):
                raise RuntimeError(f"the link probe of {received.host} failed: {line}")
            case messages.TaskExited(_, code):
                raise RuntimeError(f"the link probe of {received.host} ended with code {code}")
            case messages.TaskMessage(_, message):
                return received.host, message
        return received.host, None


def unreachable_line(unreachable: Mapping[Pair, str], addresses: Mapping[str, Mapping[str, str]]) -> str:
    """The error line for pairs of hosts that cannot connect, with the reasons; it explains the first pair."""
    (pair, reason), *others = unreachable.items()
    (address,) = addresses[pair.receiver].values()
    more = f"; neither can {', '.join(f'{one.sender} reach {one.receiver}' for one, _ in others)}" if others else ""
    return (
        f"{pair.sender} cannot reach {pair.receiver} at {address} ({reason}): open that port between the hosts, or fix "
        f"`ports`/`address` in the inventory{more}"
    )


def _task(host: str) -> str:
    return f"link-{host}"


def _link(pair: Pair, times: LinkMeasurement, rate: LinkMeasurement) -> Link:
    return Link(
        sender=pair.sender,
        receiver=pair.receiver,
        mb_s=None if rate.mb_s is None else round(rate.mb_s, 3),
        rtt_s=times.rtt_s,
        rtt_min_s=times.rtt_min_s,
        error=times.error or rate.error,
    )
