"""The results of a run's hosts in a period of the run."""

from paceline.analyze.clocks import clock_uncertainty
from paceline.analyze.hosts import host_results
from paceline.errors import SpecError
from paceline.spec.fault import Fault
from paceline.store.events import JoinedEvent, LinkEvent
from paceline.store.result import HostResult, Link
from paceline.store.run import StoredRun

_SCOPE = {
    "cpu": "the host's tasks",
    "busiest_core": "the cores of the host's machine",
    "memory": "the host's tasks",
    "network": "the host's own interfaces",
    "disk": "the host's tasks",
}
"""What the figures of a host cover if it is a machine of its own."""
_SHARED_CORES = {"busiest_core": "the machine's cores, shared by all hosts"}
_SHARED_NETWORK = {"network": "the machine's, shared by all hosts"}
_MOST = 0.5
"""Share of a period from which a limit that a fault sets counts as the capacity of the link."""


def hosts_between(run: StoredRun, start_s: float, end_s: float) -> list[HostResult]:
    """What each host used from `start_s` to `end_s` on the run's clock, in the order of the layout."""
    tasks: dict[str, list[str]] = {}
    for place in run.header.places:
        tasks.setdefault(place.host, []).append(place.task)
    cores = _SHARED_CORES if run.header.host_kind.shares_one_machine else {}
    scopes = {
        event.host: _SCOPE | cores | (_SHARED_NETWORK if event.network == "machine" else {})
        for event in run.all(JoinedEvent)
    }
    # The limits are listed in the order of the layout; the places begin with the servers.
    hosts = sorted(tasks, key=[*run.header.limits, *tasks].index)
    results = host_results(
        run.samples, start_s=start_s, end_s=end_s, tasks={host: tasks[host] for host in hosts}, scopes=scopes
    )
    uncertainty = clock_uncertainty(run)
    for result in results:
        result.link = _link(run, result.host, start_s, end_s)
        result.clock_uncertainty_us = round(uncertainty.get(result.host, 0.0) * 1e6, 1)
    return results


def _link(run: StoredRun, host: str, start_s: float, end_s: float) -> Link | None:
    """The capacity of a host's link; None if it is not known or the host shares its network with other hosts."""
    joined = next((event for event in run.all(JoinedEvent) if event.host == host), None)
    limits = run.header.limits.get(host)
    if joined is None or joined.network != "host":
        return None
    if limited := _limited_by_fault(run, host, start_s, end_s):
        return Link(tx_mb_s=limited, rx_mb_s=limited, known_from="by --fault")
    if limits and limits.link_bits_s:
        rate = limits.link_bits_s / 8e6
        return Link(tx_mb_s=rate, rx_mb_s=rate, known_from="by --link")
    measured = next((event for event in run.all(LinkEvent) if event.host == host), None)
    return Link(tx_mb_s=measured.tx_mb_s, rx_mb_s=measured.rx_mb_s, known_from="measured") if measured else None


def _limited_by_fault(run: StoredRun, host: str, start_s: float, end_s: float) -> float | None:
    """The rate in MB/s to which a fault limited the host's link for most of the period; None if none did."""
    for index, event in enumerate(run.events):
        what = str(event.get("what"))
        if event["event"] != "fault" or event.get("host") != host or not what.startswith("limit "):
            continue
        fault = _parse(what)
        later = (one for one in run.events[index:] if one["event"] == "fault-over" and one.get("what") == what)
        over_s = next((float(one["t_s"]) for one in later), end_s)
        lasted_s = min(end_s, over_s) - max(start_s, float(event["t_s"]))
        if fault and fault.link_bits_s is not None and lasted_s > _MOST * (end_s - start_s):
            return fault.link_bits_s / 8e6
    return None


def _parse(text: str) -> Fault | None:
    """None if the text is damaged."""
    try:
        return Fault.parse(text)
    except SpecError:
        return None
