"""What the links between hosts can carry: measured before the first run on a layout, and remembered for the next."""

import logging
import queue
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline import messages
from paceline.control.cluster import Cluster, Lost
from paceline.hosts.base import Host
from paceline.plan.place import RunPlan
from paceline.store.paths import remembered_links, write_whole
from paceline.task.link_probe import SEND_S, LinkOrder, LinkRate

_log = logging.getLogger(__name__)
_PATIENCE_S = 30.0
_GOOD_FOR_S = 7 * 24 * 3600.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    tx_mb_s: float
    rx_mb_s: float
    measured_at: float
    """Seconds since 1970."""


Capacities = dict[str, Capacity]


def capacities(plan: RunPlan, hosts: Sequence[Host], runs: Path, scratch: Path) -> Capacities:
    """By host; empty where there is no other host, all links have a given rate, or measuring failed."""
    if len(hosts) < 2 or all(limit.link_bits_s for limit in plan.limits):
        return {}
    memory = remembered_links(runs)
    key = f"{plan.spec.hosts} · {plan.layout} · {plan.spec.link or '-'} · {plan.spec.latency or '-'}"
    known = _read(memory)
    if key not in known or any(time.time() - one.measured_at > _GOOD_FOR_S for one in known[key].values()):
        try:
            known[key] = measure(hosts, scratch)
        except (OSError, RuntimeError, queue.Empty, *messages.UNREADABLE) as error:
            _log.warning("the links were not measured: %s", error)
            return {}
        with suppress(OSError):
            write_whole(memory, msgspec.json.encode(known))
    return known[key]


def measure(hosts: Sequence[Host], scratch: Path) -> Capacities:
    """Each host sends to the next for a moment; what comes in there is what the one can send and the other take."""
    scratch.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(hosts, scratch, scratch.absolute(), sample_hz=0)
    try:
        rates = _rates(cluster, hosts)
    finally:
        cluster.close()
    now = time.time()
    sent = {rate.sender: rate.mb_s for rate in rates}
    return {
        rate.receiver: Capacity(tx_mb_s=round(sent[rate.receiver], 3), rx_mb_s=round(rate.mb_s, 3), measured_at=now)
        for rate in rates
    }


def _rates(cluster: Cluster, hosts: Sequence[Host]) -> list[LinkRate]:
    ring, token = tuple(host.name for host in hosts), secrets.token_hex(16)
    for host in hosts:
        order = LinkOrder(host=host.name, address=host.address, ring=ring, token=token)
        job = msgspec.Raw(msgspec.msgpack.encode(order))
        cluster.send(host.name, messages.StartTask(f"link-{host.name}", job, {}, "link"))
    addresses: dict[str, dict[str, str]] = {}
    found: list[LinkRate] = []
    deadline = time.monotonic() + _PATIENCE_S + SEND_S * len(hosts)
    while len(found) < len(hosts):
        heard = cluster.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        if isinstance(heard, Lost):
            raise RuntimeError(f"the agent of {heard.host} is gone: {heard.detail}")
        match heard.message:
            case messages.TaskMessage(task, messages.Bound(own)):
                addresses[task] = own
                if len(addresses) == len(hosts):
                    _introduce(cluster, hosts, addresses)
            case messages.TaskMessage(_, messages.Finished(raw)):
                found.append(msgspec.msgpack.decode(raw, type=LinkRate))
            case messages.TaskMessage(task, messages.Failed(line, _)):
                raise RuntimeError(f"{task}: {line}")
    return found


def _introduce(cluster: Cluster, hosts: Sequence[Host], addresses: Mapping[str, dict[str, str]]) -> None:
    for host in hosts:
        cluster.send(host.name, messages.SendToTask(f"link-{host.name}", messages.Peers(dict(addresses))))


def _read(memory: Path) -> dict[str, Capacities]:
    try:
        return msgspec.json.decode(memory.read_bytes(), type=dict[str, Capacities])
    except (OSError, *messages.UNREADABLE):
        return {}
