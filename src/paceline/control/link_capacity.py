"""Capacity of the links between hosts, in MB/s: measured before the first run and cached for a week.

A cached value is used again for runs with the same hosts, layout, link rate and latency.
"""

import logging
import queue
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline import messages
from paceline.control.cluster import AgentClosed, Cluster
from paceline.hosts.base import Host
from paceline.messages.link_probe import SEND_S, LinkOrder, LinkRate
from paceline.plan.place import RunPlan
from paceline.store.paths import link_cache, write_whole

_log = logging.getLogger(__name__)
_TIMEOUT_S = 30.0
_VALID_FOR_S = 7 * 24 * 3600.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    tx_mb_s: float
    rx_mb_s: float
    measured_at: float
    """Seconds since 1970."""


Capacities = dict[str, Capacity]


def capacities(plan: RunPlan, hosts: Sequence[Host], runs: Path, scratch: Path) -> Capacities:
    """Capacity by host. Empty if there is only one host, if all links have a rate limit (which is then their capacity),
    or if measuring failed."""
    if len(hosts) < 2 or all(limit.link_bits_s for limit in plan.limits):
        return {}
    cache = link_cache(runs)
    key = f"{plan.spec.hosts} · {plan.layout} · {plan.spec.link or '-'} · {plan.spec.latency or '-'}"
    cached = _read_cache(cache)
    if key not in cached or any(time.time() - capacity.measured_at > _VALID_FOR_S for capacity in cached[key].values()):
        try:
            cached[key] = measure(hosts, scratch)
        except (OSError, RuntimeError, queue.Empty, *messages.DECODE_ERRORS) as error:
            _log.warning("link capacity could not be measured: %s", error)
            return {}
        with suppress(OSError):
            write_whole(cache, msgspec.json.encode(cached))
    return cached[key]


def measure(hosts: Sequence[Host], scratch: Path) -> Capacities:
    """Each host in turn sends to the next one. The rate counts for both, so it is a lower bound."""
    scratch.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(hosts, scratch, scratch.absolute(), messages.Setup("", sample_hz=0))
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
    rates: list[LinkRate] = []
    deadline = time.monotonic() + _TIMEOUT_S + SEND_S * len(hosts)
    while len(rates) < len(hosts):
        received = cluster.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        if isinstance(received, AgentClosed):
            raise RuntimeError(f"lost the agent of {received.host}: {received.detail}")
        match received.message:
            case messages.TaskMessage(task, messages.Bound(task_addresses)):
                addresses[task] = task_addresses
                if len(addresses) == len(hosts):
                    _send_peers(cluster, hosts, addresses)
            case messages.TaskMessage(_, messages.Finished(raw)):
                rates.append(msgspec.msgpack.decode(raw, type=LinkRate))
            case messages.TaskMessage(task, messages.Failed(line, _)):
                raise RuntimeError(f"{task}: {line}")
    return rates


def _send_peers(cluster: Cluster, hosts: Sequence[Host], addresses: Mapping[str, dict[str, str]]) -> None:
    for host in hosts:
        cluster.send(host.name, messages.SendToTask(f"link-{host.name}", messages.Peers(dict(addresses))))


def _read_cache(cache: Path) -> dict[str, Capacities]:
    try:
        return msgspec.json.decode(cache.read_bytes(), type=dict[str, Capacities])
    except (OSError, *messages.DECODE_ERRORS):
        return {}
