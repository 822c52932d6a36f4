"""Bottleneck causes that concern the exchange of gradients and parameters: links and parameter servers."""

from collections.abc import Iterator
from statistics import mean

from paceline.analyze.bottleneck.cpu_causes import cpu_limit_evidence
from paceline.analyze.bottleneck.facts import Facts, LinkFacts
from paceline.analyze.bottleneck.slow_worker import OVERLOAD_FACTOR
from paceline.analyze.bottleneck.suspect import Suspect
from paceline.analyze.bottleneck.time_account import TimeAccount
from paceline.present.numbers import milliseconds, percent


def network(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if link := account.link:
        suspect = Suspect(
            cause="network",
            where=f"{link.host}, {_direction(link)} link",
            share=account.explained_by_link,
            evidence=(_link_use(link),),
        )
        yield _uneven_server(facts, suspect) if _stores_most(facts, link.host) else suspect


def _direction(link: LinkFacts) -> str:
    if link.alternates:
        return "outbound and inbound"
    return "outbound" if link.outbound >= link.inbound else "inbound"


def _link_use(link: LinkFacts) -> str:
    if link.alternates:
        return (
            f"the link of {link.host} was {percent(link.utilization)} full, outbound and inbound in turn: "
            f"out {link.outbound_mb_s:.2f} of {link.outbound_capacity_mb_s:.2f} MB/s, "
            f"in {link.inbound_mb_s:.2f} of {link.inbound_capacity_mb_s:.2f} MB/s ({link.known_from})"
        )
    direction = _direction(link)
    mb_s, capacity = (
        (link.outbound_mb_s, link.outbound_capacity_mb_s)
        if direction == "outbound"
        else (link.inbound_mb_s, link.inbound_capacity_mb_s)
    )
    return (
        f"the {direction} link of {link.host} carried {mb_s:.2f} of {capacity:.2f} MB/s: "
        f"{percent(max(link.outbound, link.inbound))} of its capacity ({link.known_from})"
    )


def server(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if server := account.server:
        suspect = Suspect(
            cause=facts.server_is,
            where=f"{server.task} on {server.host}",
            share=account.explained_by_server,
            evidence=(
                f"{server.task} was busy {percent(server.busy)} of the time, with {server.use.cpu_cores:.2f} cores",
                *_passing_evidence(facts, account),
                *cpu_limit_evidence(facts, server.host),
            ),
            reason="cpu_limit" if facts.host(server.host).cpu_limit_reached else "",
        )
        yield _uneven_server(facts, suspect) if _are_servers_uneven(facts) else suspect


def _passing_evidence(facts: Facts, account: TimeAccount) -> list[str]:
    """A sentence about passing data through the only server, if that takes noticeable time."""
    if account.passing < 0.05:
        return []
    steps = max(1, sum(worker.steps for worker in facts.workers))
    passing, step = (milliseconds(share * facts.phases.total / steps) for share in (account.passing, 1.0))
    return [f"passing parameters and gradients between it and the workers takes {passing} of the {step} per step"]


def _uneven_server(facts: Facts, suspect: Suspect) -> Suspect:
    """The suspect that replaces a busy link or server if uneven parameter servers cause its load."""
    server = max(facts.servers, key=lambda server: (server.busy, sum(server.parameter_sizes.values())))
    largest = max(server.parameter_sizes, key=lambda name: server.parameter_sizes[name], default="?")
    loads = ", ".join(f"{server.task} {percent(server.busy)}" for server in facts.servers)
    return Suspect(
        cause="imbalance",
        where=f"{server.task} on {server.host}",
        share=suspect.share,
        evidence=(
            f"the parameter servers are unevenly busy: {loads}",
            f"{server.task} stores most of parameter {largest} ({server.parameter_sizes.get(largest, 0):,} values)",
            *suspect.evidence,
        ),
        reason="uneven_servers",
    )


def _are_servers_uneven(facts: Facts) -> bool:
    if len(facts.servers) < 2:
        return False
    loads = [server.busy for server in facts.servers]
    return max(loads) >= OVERLOAD_FACTOR * mean(loads)


def _stores_most(facts: Facts, host: str) -> bool:
    """Whether a server of this host stores so many of the parameters that the host's link must be the busiest."""
    sizes = [(server.host, sum(server.parameter_sizes.values())) for server in facts.servers]
    host_sizes = [size for server_host, size in sizes if server_host == host]
    return len(sizes) > 1 and bool(host_sizes) and max(host_sizes) >= OVERLOAD_FACTOR * mean(size for _, size in sizes)
