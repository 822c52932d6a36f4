"""Who may have set the pace: a function for each cause, which says how much of the time is its doing, and why."""

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

STANDS_OUT = 1.25
"""Equal workers on one busy machine differ by up to a fifth."""
UNEQUAL = 1.5
"""A worker that makes so many times its fair share of updates, or a server that has so many times its share of work."""
EXPLAINS = 0.5
"""A link or server that is busy this much of the time explains why exchanging with it takes long."""
FEW_STEPS = 50


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    cause: str
    where: str
    share: float
    evidence: tuple[str, ...] = ()
    because: str = ""
    """What made it so, where a remedy depends on it."""


def suspects(facts: Facts) -> list[Suspect]:
    """All, the worst first."""
    straggler = _straggler(facts)
    imbalance = _uneven_workers(facts)
    shares = time_account(facts, wait_for_one=_wait_for(facts, straggler))
    # What a slow worker is longer at than the others is its own doing, not that there is much to do.
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
        *_beside(facts, shares),
    ]
    # Where there was hardly any training, what its steps were like is the lesser question.
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
            f"{slowest.task} needs {_ms(mine)} for a step, the others {_ms(others)} ({mine / max(others, 1e-9):.1f} ×)",
            *([f"it is the last one in {last:.0%} of the steps"] if last is not None else []),
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
            f"{most.task} made {most.steps / made:.0%} of the updates, an even share is {1 / len(facts.workers):.0%}",
            f"{least.task} on {least.host} made {least.steps / made:.0%}",
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
            f"{facts.startup_s:.1f} s until every worker had made its first step, {facts.seconds:.2f} s of training",
            f"the slowest worker made {facts.steps} steps",
        ),
    )


def _exchange(facts: Facts, shares: TimeAccount) -> Iterator[Suspect]:
    if shares.link:
        link = shares.link
        yield _blame_servers(
            facts,
            Suspect(
                cause="network",
                where=f"{link.way} {link.host}",
                share=shares.by_link,
                evidence=(
                    f"{link.mb_s:.2f} of {link.capacity_mb_s:.2f} MB/s go {link.way} {link.host}: "
                    f"{link.full:.0%} of what the link can carry ({link.known_from})",
                    _exchanging(facts),
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
                    f"{server.task} is busy {server.busy:.0%} of the time, on {server.use.cpu_cores:.2f} cores",
                    *_quota(facts, server.host),
                    _exchanging(facts),
                ),
                because="quota" if facts.host(server.host).is_full else "",
            ),
            _uneven_servers(facts),
        )


def _blame_servers(facts: Facts, suspect: Suspect, uneven: bool) -> Suspect:
    """The same share, but put down to how the parameters are spread over the servers."""
    if not uneven:
        return suspect
    server = max(facts.servers, key=lambda one: (one.busy, sum(one.holds.values())))
    guilty = max(server.holds, key=lambda name: server.holds[name], default="?")
    loads = ", ".join(f"{one.task} {one.busy:.0%}" for one in facts.servers)
    return Suspect(
        cause="imbalance",
        where=f"{server.task} on {server.host}",
        share=suspect.share,
        evidence=(
            f"the servers are unequally busy: {loads}",
            f"{server.task} holds most of {guilty} ({server.holds.get(guilty, 0):,} values)",
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
    """Whether this host's servers keep so much more of the parameters than others that its link must be the fullest."""
    held = [sum(server.holds.values()) for server in facts.servers]
    here = [sum(server.holds.values()) for server in facts.servers if server.host == host]
    return len(held) > 1 and bool(here) and max(here) >= UNEQUAL * mean(held)


def _compute(facts: Facts, shares: TimeAccount) -> Suspect:
    limited = with_own_limits(facts)
    worker = max(limited.workers, key=lambda one: one.phases.compute)
    total = facts.phases.total or 1
    held_up = (limited.phases.compute - facts.phases.compute) / total
    cores = ", ".join(f"{one.task} {one.use.cpu_cores:.2f} on {one.threads}" for one in facts.workers[:4])
    return Suspect(
        cause="compute",
        where=f"{worker.task} on {worker.host}",
        share=shares.compute,
        evidence=(
            f"{facts.phases.compute / total:.0%} of the workers' time is computing"
            + (f", {held_up:.0%} other work for which too little of a core was allowed" if held_up >= 0.01 else ""),
            f"cores used, and threads to use them: {cores}",
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
        used = f"tasks of {host.host} used {host.cpu_cores:.2f} of the {host.cpus:g} cores they may use"
    else:
        cores = facts.machine_cores
        where = f"the machine's {cores} cores" if cores else worst.host
        used = f"{len(tasks)} tasks used {sum(task.use.cpu_cores for task in tasks):.2f} cores"
        used += f", other programs {facts.other_cores:.2f}" if facts.other_cores >= 0.1 else ""
    waits = ", ".join(f"{task.task} {task.use.starved:.0%}" for task in tasks[:6])
    return Suspect(
        cause="contention",
        where=where,
        share=shares.starved,
        evidence=(f"ready to run, but without a core: {waits} of the time", used),
        because="others" if facts.other_cores >= max(0.5, sum(task.use.cpu_cores for task in tasks)) else "",
    )


def _overhead(facts: Facts, shares: TimeAccount) -> Suspect:
    worker = max(facts.workers, key=lambda one: one.phases.own)
    steps = max(1, sum(one.steps for one in facts.workers))
    evidence = [f"a step takes {_ms(facts.phases.total / steps)}"]
    if facts.arithmetic_s is not None:
        evidence.append(f"its arithmetic would take {_ms(facts.arithmetic_s)} at the speed of plain matrix products")
    if shares.messages > 0.05:
        evidence.append(f"messages take {shares.messages:.0%} of the time, with no link and no server full")
    return Suspect(
        cause="overhead",
        where=f"{worker.task} on {worker.host}",
        share=shares.framework,
        evidence=tuple(evidence),
        because="messages" if shares.messages > shares.framework / 2 else "",
    )


def _barrier(facts: Facts, shares: TimeAccount) -> Suspect:
    last = ", ".join(f"{task} {share:.0%}" for task, share in facts.last.items())
    waits = ", ".join(f"{one.task} {one.phases.wait / (one.phases.total or 1):.0%}" for one in facts.workers[:6])
    return Suspect(
        cause="barrier",
        where="all workers",
        share=shares.wait,
        evidence=(f"waiting for the others: {waits}", *([f"last in a step: {last}"] if last else [])),
    )


def _beside(facts: Facts, shares: TimeAccount) -> Iterator[Suspect]:
    """What is not the step's own work."""
    for cause, phase, share in (
        ("input", "data", shares.data),
        ("evaluation", "eval", shares.eval),
        ("checkpoint", "checkpoint", shares.checkpoint),
    ):
        worker = max(facts.workers, key=lambda one, phase=phase: getattr(one.phases, phase))  # type: ignore[misc]
        a_step = getattr(worker.phases, phase) / max(1, worker.steps)
        yield Suspect(
            cause=cause,
            where=f"{worker.task} on {worker.host}",
            share=share,
            evidence=(f"{_ms(a_step)} of {_ms(worker.phases.total / max(1, worker.steps))} a step, at {worker.task}",),
        )


def _wait_for(facts: Facts, straggler: Suspect | None) -> float:
    """The share of all workers' time that others spend waiting for the straggler."""
    if straggler is None:
        return 0.0
    return min(straggler.share, facts.phases.wait / (facts.phases.total or 1.0))


def _explained(facts: Facts, phase: str) -> bool:
    """Whether a slow exchange is a full link's or a busy server's doing."""
    link, server = fullest(facts), busiest(facts)
    most = max(link.full if link else 0.0, server.busy if server else 0.0)
    return phase in ("pull", "push") and most >= EXPLAINS


def _phase_lost(facts: Facts, worker: WorkerFacts) -> str:
    """The phase in which a worker spends most beyond the others, a step."""
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
        return "contention", f"{worker.task} was ready to run, but without a core, {worker.use.starved:.0%} of the time"
    if phase in ("pull", "push"):
        return "exchange", f"it loses most in {phase}: its way to the others is longer"
    return phase, f"it loses most in {phase}"


def _quota(facts: Facts, host: str) -> list[str]:
    found = facts.host(host)
    if found.cpus is None:
        return []
    return [f"tasks of {host} used {found.cpu_cores:.2f} of the {found.cpus:g} cores they may use"]


def _exchanging(facts: Facts) -> str:
    phases: Phases = facts.phases
    total = phases.total or 1.0
    return (
        f"of the workers' time: pull {phases.pull / total:.0%}, push {phases.push / total:.0%}, "
        f"wait {phases.wait / total:.0%}, compute {phases.compute / total:.0%}"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
