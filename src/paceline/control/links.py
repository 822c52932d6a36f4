"""The links between the hosts of a run: checked before training, measured before the first run and cached for a week.

Measurements are used again for runs with the same kind and addresses of hosts, layout, link rate and latency.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline.control.probe_links import PROBE_ERRORS, Link, Probes
from paceline.hosts.base import Host
from paceline.messages import DECODE_ERRORS
from paceline.plan.place import RunPlan
from paceline.store.paths import link_cache, write_whole

_log = logging.getLogger(__name__)
_VALID_FOR_S = 7 * 24 * 3600.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the link of one host carries at least: the best rate of all its pairs."""

    tx_mb_s: float
    rx_mb_s: float
    measured_at: float
    """Seconds since 1970."""


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """The measured links between the hosts of a run."""

    pairs: list[Link] = []
    """Links in one direction, each once; none if nothing was measured."""
    measured_at: float = 0.0
    """Seconds since 1970."""
    seconds: float = 0.0
    """How long it took to measure, without the start of the probes."""

    @property
    def capacities(self) -> dict[str, Capacity]:
        """By host, for hosts of which both directions were measured."""
        sent: dict[str, float] = {}
        received: dict[str, float] = {}
        for link in self.pairs:
            if link.mb_s:
                sent[link.sender] = max(link.mb_s, sent.get(link.sender, 0.0))
                received[link.receiver] = max(link.mb_s, received.get(link.receiver, 0.0))
        return {
            host: Capacity(tx_mb_s=sent[host], rx_mb_s=received[host], measured_at=self.measured_at)
            for host in sent
            if host in received
        }


def prepare_links(plan: RunPlan, hosts: Sequence[Host], runs: Path, scratch: Path) -> Links:
    """Check that the hosts reach each other, and return what is known of their links.

    HostError if a host cannot reach another one. Hosts on separate machines are checked before every run. No links if
    there is only one host, if the hosts have no links of their own, if all links have a rate limit, or if measuring
    failed.
    """
    key = _cache_key(plan, hosts)
    cached = _valid_cache(link_cache(runs)).get(key)
    limited = all(limit.link_bits_s for limit in plan.limits)
    must_measure = len(hosts) > 1 and plan.has_links and not limited and cached is None
    must_check = len(hosts) > 1 and not plan.shares_one_machine
    if must_measure or must_check:
        try:
            with Probes(hosts, scratch) as probes:
                probes.check_reachable()
                if must_measure:
                    cached = _measure(probes, one_machine=plan.shares_one_machine)
                    _write_cache(link_cache(runs), key, cached)
        except PROBE_ERRORS as error:
            # If an agent does not start, the run itself says so in its own words.
            _log.warning("the links between the hosts could not be measured: %s", error)
    return cached or Links()


def _measure(probes: Probes, *, one_machine: bool) -> Links:
    start = time.monotonic()
    pairs = probes.measure(one_machine=one_machine)
    return Links(pairs=pairs, measured_at=time.time(), seconds=round(time.monotonic() - start, 3))


def _cache_key(plan: RunPlan, hosts: Sequence[Host]) -> str:
    addresses = " ".join(host.address for host in hosts)
    return f"{plan.spec.hosts} · {addresses} · {plan.layout} · {plan.spec.link or '-'} · {plan.spec.latency or '-'}"


def _valid_cache(cache: Path) -> dict[str, Links]:
    """The cached links that are not too old; none if the file cannot be read."""
    try:
        cached = msgspec.json.decode(cache.read_bytes(), type=dict[str, Links])
    except (OSError, *DECODE_ERRORS):
        return {}
    return {key: links for key, links in cached.items() if time.time() - links.measured_at <= _VALID_FOR_S}


def _write_cache(cache: Path, key: str, links: Links) -> None:
    with suppress(OSError):
        write_whole(cache, msgspec.json.encode(_valid_cache(cache) | {key: links}))
