"""Candidates for the bottleneck: one function per cause computes its share of the workers' time, with evidence."""

from collections.abc import Iterator
from statistics import mean, median

import msgspec

from paceline.analyze.bottleneck.facts import Facts, Phases, ServerFacts, WorkerFacts
from paceline.analyze.bottleneck.time_account import (
    TimeAccount,
    busiest,
    fullest,
    is_its_own_limit,
    time_account,
    with_own_limits,
)
from paceline.present.numbers import count, milliseconds, percent

STANDS_OUT = 1.25
"""A straggler's step takes this many times as long as the others'. Equal workers on a busy machine differ by 20 %."""
UNEQUAL = 1.5
"""A worker or server is overloaded if it makes this many times its even share of the updates or of the work."""
EXPLAINS = 0.5
"""A link or server that is busy for this share of the time explains slow pulls and pushes."""
_DIRECTIONS = {"out of": "outbound", "into": "inbound"}
"""By the direction of `LinkFacts`."""
FEW_STEPS = 50
"""With fewer steps, startup may be the bottleneck of a run."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    cause: str
    where: str
    share: float
    evidence: tuple[str, ...] = ()
    because: str = ""
    """Why, where the remedy depends on it: `quota`, `others`, `servers`, `contention`, `exchange`, `messages`."""


def suspects(facts: Facts) -> list[Suspect]:
    """All candidates with a share above 0, the largest share first."""
    straggler = _straggler(facts)
    imbalance = _uneven_workers(facts)
    shares = time_account(facts, wait_for_one=_wait_for(facts, straggler))
    # Time that one slow worker needs beyond the others is blamed on that worker, not on the phase it is slow in.
    excused = max((one.share for one in (straggler, imbalance) if one), default=0.0)
    shares = msgspec.structs.replace(
        shares,
        **{name: getattr(shares, name) * (1 - excused) for name in ("data", "compute", "framework", "messages")},
    )
    found = [
        *(one for one in (straggler, imbalance, _startup(facts)) if one),
        *_exchange(facts, shares),
        _compute(facts, shares),
        _contention(facts, shares),
        _overhead(facts, shares),
        _barrier(facts, shares),
        *_outside_steps(facts, shares),
    ]
    # If startup took longer than training, it comes first: the shares within steps matter less.
    return sorted((one for one in found if one.share > 0), key=lambda one: (one.cause != "startup", -one.share))


def _straggler(facts: Facts) -> Suspect | None:
    if not facts.synchronous or len(facts.workers) < 2:
        return None
    own = {worker.task: worker.phases.own / max(1, worker.steps) for worker in facts.workers}
    slowest = max(facts.workers, key=lambda worker: own[worker.task])
    others = median(own[worker.task] for worker in facts.workers if worker is not slowest)
    mine, last = own[slowest.task], facts.last.get(slowest.task)
    phase = _phase_lost(facts, slowest)
    if mine < STANDS_OUT * others or (last is not None and last < 0.5) or _explained(facts, phase):
        return None
    whole = mine + (slowest.phases.wait + slowest.phases.eval) / max(1, slowest.steps)
    because, why = _why_slow(facts, slowest, phase)
    return Suspect(
        cause="straggler",
        where=f"{slowest.task} on {slowest.host}",
        share=(mine - others) / whole,
        evidence=(
            f"a step takes {milliseconds(mine)} on {slowest.task}, {milliseconds(others)} on the others "
            f"({mine / max(others, 1e-9):.1f}×)",
            *([f"{slowest.task} was the last worker in {percent(last)} of the steps"] if last is not None else []),
            why,
        ),
        because=because,
    )


def _uneven_workers(facts: Facts) -> Suspect | None:
    if facts.synchronous or len(facts.workers) < 2:
        return None
    most = max(facts.workers, key=lambda worker: worker.steps)
    least = min(facts.workers, key=lambda worker: worker.steps)
    fair = mean(worker.steps for worker in facts.workers)
    if not fair or most.steps < UNEQUAL * fair:
        return None
    made = sum(worker.steps for worker in facts.workers)
    because, why = _why_slow(facts, least, _phase_lost(facts, least))
    return Suspect(
        cause="imbalance",
        where=f"{most.task} on {most.host}",
        share=1 - fair / most.steps,
        evidence=(
            f"{most.task} made {percent(most.steps / made)} of the updates; an even share is "
            f"{percent(1 / len(facts.workers))}",
            f"{least.task} on {least.host} made {percent(least.steps / made)}",
            why,
        ),
        because=because,
    )


def _startup(facts: Facts) -> Suspect | None:
    if facts.steps >= FEW_STEPS or facts.startup_s <= 2 * facts.seconds:
        return None
    return Suspect(
        cause="startup",
        where="the whole run",
        share=facts.startup_s / max(facts.total_s, facts.startup_s, 1e-9),
        evidence=(
            f"startup (until every worker's first step) took {facts.startup_s:.1f} s, training {facts.seconds:.2f} s",
            f"the worker with the fewest steps made {facts.steps}",
        ),
    )


def _exchange(facts: Facts, shares: TimeAccount) -> Iterator[Suspect]:
    if shares.link:
        link = shares.link
        yield _blame_servers(
            facts,
            Suspect(
                cause="network",
                where=f"{link.host}, {_DIRECTIONS[link.way]} link",
                share=shares.by_link,
                evidence=(
                    f"the {_DIRECTIONS[link.way]} link of {link.host} carried {link.mb_s:.2f} of "
                    f"{link.capacity_mb_s:.2f} MB/s: {percent(link.full)} of its capacity ({link.known_from})",
                    _phase_evidence(facts),
                ),
            ),
            _holds_most(facts, link.host),
        )
    if shares.server:
        server = shares.server
        yield _blame_servers(
            facts,
            Suspect(
                cause="server",
                where=f"{server.task} on {server.host}",
                share=shares.by_server,
                evidence=(
                    f"{server.task} was busy {percent(server.busy)} of the time, with {server.use.cpu_cores:.2f} cores",
                    *_quota(facts, server.host),
                    _phase_evidence(facts),
                ),
                because="quota" if facts.host(server.host).is_full else "",
            ),
            _uneven_servers(facts),
        )


def _blame_servers(facts: Facts, suspect: Suspect, uneven: bool) -> Suspect:
    """If the servers are unevenly loaded, the same share with `imbalance` as its cause."""
    if not uneven:
        return suspect
    server = max(facts.servers, key=lambda one: (one.busy, sum(one.holds.values())))
    largest = max(server.holds, key=lambda name: server.holds[name], default="?")
    loads = ", ".join(f"{one.task} {percent(one.busy)}" for one in facts.servers)
    return Suspect(
        cause="imbalance",
        where=f"{server.task} on {server.host}",
        share=suspect.share,
        evidence=(
            f"the parameter servers are unevenly busy: {loads}",
            f"{server.task} stores most of parameter {largest} ({server.holds.get(largest, 0):,} values)",
            *suspect.evidence,
        ),
        because="servers",
    )


def _uneven_servers(facts: Facts) -> bool:
    if len(facts.servers) < 2:
        return False
    loads = [server.busy for server in facts.servers]
    return max(loads) >= UNEQUAL * mean(loads)


def _holds_most(facts: Facts, host: str) -> bool:
    """Whether the servers of this host store so many of the parameters that its link must be the fullest."""
    held = [sum(server.holds.values()) for server in facts.servers]
    here = [sum(server.holds.values()) for server in facts.servers if server.host == host]
    return len(held) > 1 and bool(here) and max(here) >= UNEQUAL * mean(held)


def _compute(facts: Facts, shares: TimeAccount) -> Suspect:
    limited = with_own_limits(facts)
    worker = max(limited.workers, key=lambda one: one.phases.compute)
    total = facts.phases.total or 1
    held_up = (limited.phases.compute - facts.phases.compute) / total
    cores = ", ".join(f"{one.task} {one.use.cpu_cores:.2f}/{one.threads}" for one in facts.workers[:4])
    return Suspect(
        cause="compute",
        where=f"{worker.task} on {worker.host}",
        share=shares.compute,
        evidence=(
            f"the workers spent {percent(facts.phases.compute / total)} of their time computing"
            + (f" and {percent(held_up)} on other work slowed down by the CPU limit" if held_up >= 0.01 else ""),
            f"cores used / threads: {cores}",
            *_quota(facts, worker.host),
        ),
        because="quota" if is_its_own_limit(facts.host(worker.host)) else "",
    )


def _contention(facts: Facts, shares: TimeAccount) -> Suspect:
    full = [host for host in facts.hosts if len(host.tasks) > 1 and host.is_full]
    tasks: list[WorkerFacts | ServerFacts] = [*facts.workers, *facts.servers]
    worst = max(tasks, key=lambda task: task.use.starved)
    if full:
        host = max(full, key=lambda one: len(one.tasks))
        where = f"{host.host} ({', '.join(host.tasks)})"
        used = f"the tasks of {host.host} used {host.cpu_cores:.2f} of the {host.cpus:g} cores allowed"
    else:
        cores = facts.machine_cores
        where = f"the machine's {count(cores, 'core')}" if cores else worst.host
        used = f"{len(tasks)} tasks used {sum(task.use.cpu_cores for task in tasks):.2f} cores"
        used += f"; background load: {facts.other_cores:.2f} cores" if facts.other_cores >= 0.1 else ""
    waits = ", ".join(f"{task.task} {percent(task.use.starved)}" for task in tasks[:6])
    return Suspect(
        cause="contention",
        where=where,
        share=shares.starved,
        evidence=(f"waiting for a CPU core: {waits} of the time", used),
        because="others" if facts.other_cores >= max(0.5, sum(task.use.cpu_cores for task in tasks)) else "",
    )


def _overhead(facts: Facts, shares: TimeAccount) -> Suspect:
    worker = max(facts.workers, key=lambda one: one.phases.own)
    steps = max(1, sum(one.steps for one in facts.workers))
    evidence = [f"a step takes {milliseconds(facts.phases.total / steps)}"]
    if facts.arithmetic_s is not None:
        arithmetic = milliseconds(facts.arithmetic_s)
        evidence.append(f"its arithmetic needs {arithmetic} at the measured matrix-multiplication speed")
    if shares.messages > 0.05:
        evidence.append(f"messages take {percent(shares.messages)} of the time although no link or server is saturated")
    return Suspect(
        cause="overhead",
        where=f"{worker.task} on {worker.host}",
        share=shares.framework,
        evidence=tuple(evidence),
        because="messages" if shares.messages > shares.framework / 2 else "",
    )


def _barrier(facts: Facts, shares: TimeAccount) -> Suspect:
    last = ", ".join(f"{task} {percent(share)}" for task, share in facts.last.items())
    waits = ", ".join(f"{one.task} {percent(one.phases.wait / (one.phases.total or 1))}" for one in facts.workers[:6])
    return Suspect(
        cause="barrier",
        where="all workers",
        share=shares.wait,
        evidence=(
            f"waiting for other workers: {waits} of the time",
            *([f"last worker to finish a step: {last} of the steps"] if last else []),
        ),
    )


def _outside_steps(facts: Facts, shares: TimeAccount) -> Iterator[Suspect]:
    """Data loading, evaluation and checkpoints."""
    for cause, phase, share in (
        ("input", "data", shares.data),
        ("evaluation", "eval", shares.eval),
        ("checkpoint", "checkpoint", shares.checkpoint),
    ):
        worker = max(facts.workers, key=lambda one, phase=phase: getattr(one.phases, phase))  # type: ignore[misc]
        per_step = getattr(worker.phases, phase) / max(1, worker.steps)
        whole = worker.phases.total / max(1, worker.steps)
        yield Suspect(
            cause=cause,
            where=f"{worker.task} on {worker.host}",
            share=share,
            evidence=(
                f"{cause} takes {milliseconds(per_step)} of the {milliseconds(whole)} per step on {worker.task}",
            ),
        )


def _wait_for(facts: Facts, straggler: Suspect | None) -> float:
    """The share of all workers' time that is spent waiting for the straggler."""
    if straggler is None:
        return 0.0
    return min(straggler.share, facts.phases.wait / (facts.phases.total or 1.0))


def _explained(facts: Facts, phase: str) -> bool:
    """Whether a busy link or server explains that the worker is slow in this phase."""
    link, server = fullest(facts), busiest(facts)
    most = max(link.full if link else 0.0, server.busy if server else 0.0)
    return phase in ("pull", "push") and most >= EXPLAINS


def _phase_lost(facts: Facts, worker: WorkerFacts) -> str:
    """The phase in which a worker spends the most time per step beyond the mean of the others."""
    others = [one for one in facts.workers if one is not worker]

    def beyond(phase: str) -> float:
        mine = getattr(worker.phases, phase) / max(1, worker.steps)
        return float(mine - mean(getattr(one.phases, phase) / max(1, one.steps) for one in others))

    return max(("data", "pull", "compute", "push", "other"), key=beyond)


def _why_slow(facts: Facts, worker: WorkerFacts, phase: str) -> tuple[str, str]:
    host = facts.host(worker.host)
    if host.is_full:
        return "quota", _quota(facts, worker.host)[0]
    if worker.use.starved >= 0.2:
        return "contention", f"{worker.task} waited for a CPU core {percent(worker.use.starved)} of the time"
    if phase in ("pull", "push"):
        return "exchange", f"{worker.task} loses most time in {phase}: its connection to the others is slower"
    return phase, f"{worker.task} loses most time in {phase}"


def _quota(facts: Facts, host: str) -> list[str]:
    found = facts.host(host)
    if found.cpus is None:
        return []
    return [f"the tasks of {host} used {found.cpu_cores:.2f} of the {found.cpus:g} cores allowed"]


def _phase_evidence(facts: Facts) -> str:
    phases: Phases = facts.phases
    total = phases.total or 1.0
    return (
        f"worker time: pull {percent(phases.pull / total)}, push {percent(phases.push / total)}, "
        f"wait {percent(phases.wait / total)}, compute {percent(phases.compute / total)}"
    )
