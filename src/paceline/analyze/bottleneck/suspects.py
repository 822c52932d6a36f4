"""Lists the candidates for the bottleneck of a run, each with its share of the workers' time and its evidence.

Every cause has one function that takes the facts and the time account and yields its suspects. To add a cause, write
such a function and add it to the tuple `CAUSES`; `remedies.py` holds the advice for each cause.
"""

from collections.abc import Callable, Iterator
from statistics import mean, median

import msgspec

from paceline.analyze.bottleneck.facts import Facts, Phases, ServerFacts, WorkerFacts
from paceline.analyze.bottleneck.time_account import (
    TimeAccount,
    busiest_link,
    busiest_server,
    count_throttled_time_as_compute,
    is_throttled,
    time_account,
)
from paceline.present.numbers import count, milliseconds, percent

STRAGGLER_FACTOR = 1.25
"""A straggler's step takes this many times as long as the others'. Equal workers on a busy machine differ by 20 %."""
OVERLOAD_FACTOR = 1.5
"""A worker or server is overloaded if it makes this many times its even share of the updates or of the work."""
SLOWS_EXCHANGE = 0.5
"""A link or server that is busy for this share of the time explains slow pulls and pushes."""
FEW_STEPS = 50
"""With fewer steps, startup may be the bottleneck of a run."""
_NOTICEABLE_WAIT = 0.2
"""A worker that waits for a CPU core for this share of the time is slow because of that."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for the bottleneck."""

    cause: str
    where: str
    share: float
    """Share of the workers' time; for `startup`, share of the run's total time."""
    evidence: tuple[str, ...] = ()
    reason: str = ""
    """What leads to the cause, if the remedy depends on it: `cpu_limit`, `background_load`, `uneven_servers`,
    `contention`, `exchange`, `messages` or the phase in which a slow worker loses its time."""


def suspects(facts: Facts) -> list[Suspect]:
    """All candidates with a share above 0, the largest share first."""
    account = _account_without_slow_worker(facts)
    candidates = [suspect for find in CAUSES for suspect in find(facts, account) if suspect.share > 0]
    # If startup took longer than training, it comes first: the shares within steps matter less.
    return sorted(candidates, key=lambda suspect: (suspect.cause != "startup", -suspect.share))


def _account_without_slow_worker(facts: Facts) -> TimeAccount:
    """The time account without the time that one slow worker needs beyond the others.

    That time is attributed to the worker, not to the phase in which the worker is slow.
    """
    slow = _slow_worker(facts)
    if slow is None:
        return time_account(facts)
    wait = facts.phases.wait / (facts.phases.total or 1.0)
    account = time_account(facts, wait_for_straggler=min(slow.share, wait) if facts.synchronous else 0.0)
    phases = ("data", "compute", "framework", "messages")
    return msgspec.structs.replace(account, **{name: getattr(account, name) * (1 - slow.share) for name in phases})


def _find_slow_worker(facts: Facts, _account: TimeAccount) -> Iterator[Suspect]:
    if slow := _slow_worker(facts):
        yield slow


def _slow_worker(facts: Facts) -> Suspect | None:
    """The straggler of a synchronous run, or the imbalance between the workers of an asynchronous one."""
    if len(facts.workers) < 2:
        return None
    return _straggler(facts) if facts.synchronous else _uneven_workers(facts)


def _straggler(facts: Facts) -> Suspect | None:
    step_s = {worker.task: worker.phases.step_work / max(1, worker.steps) for worker in facts.workers}
    slowest = max(facts.workers, key=lambda worker: step_s[worker.task])
    slowest_s = step_s[slowest.task]
    others_s = median(step_s[worker.task] for worker in facts.workers if worker is not slowest)
    last = facts.last_at_barrier.get(slowest.task)
    phase = _slow_phase(facts, slowest)
    if slowest_s < STRAGGLER_FACTOR * others_s or (last is not None and last < 0.5) or _is_explained(facts, phase):
        return None
    total_s = slowest_s + (slowest.phases.wait + slowest.phases.eval) / max(1, slowest.steps)
    reason, explanation = _why_slow(facts, slowest, phase)
    return Suspect(
        cause="straggler",
        where=f"{slowest.task} on {slowest.host}",
        share=(slowest_s - others_s) / total_s,
        evidence=(
            f"a step takes {milliseconds(slowest_s)} on {slowest.task}, {milliseconds(others_s)} on the others "
            f"({slowest_s / max(others_s, 1e-9):.1f}×)",
            *([f"{slowest.task} was the last worker in {percent(last)} of the steps"] if last is not None else []),
            explanation,
        ),
        reason=reason,
    )


def _uneven_workers(facts: Facts) -> Suspect | None:
    most = max(facts.workers, key=lambda worker: worker.steps)
    least = min(facts.workers, key=lambda worker: worker.steps)
    even = mean(worker.steps for worker in facts.workers)
    if not even or most.steps < OVERLOAD_FACTOR * even:
        return None
    steps = sum(worker.steps for worker in facts.workers)
    reason, explanation = _why_slow(facts, least, _slow_phase(facts, least))
    return Suspect(
        cause="imbalance",
        where=f"{most.task} on {most.host}",
        share=1 - even / most.steps,
        evidence=(
            f"{most.task} made {percent(most.steps / steps)} of the updates; an even share is "
            f"{percent(1 / len(facts.workers))}",
            f"{least.task} on {least.host} made {percent(least.steps / steps)}",
            explanation,
        ),
        reason=reason,
    )


def _startup(facts: Facts, _account: TimeAccount) -> Iterator[Suspect]:
    if facts.steps < FEW_STEPS and facts.startup_s > 2 * facts.seconds:
        yield Suspect(
            cause="startup",
            where="the whole run",
            share=facts.startup_s / max(facts.total_s, facts.startup_s, 1e-9),
            evidence=(
                f"startup (until every worker's first step) took {facts.startup_s:.1f} s, "
                f"training {facts.seconds:.2f} s",
                f"the worker with the fewest steps made {facts.steps}",
            ),
        )


def _network(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if link := account.link:
        suspect = Suspect(
            cause="network",
            where=f"{link.host}, {link.direction} link",
            share=account.explained_by_link,
            evidence=(
                f"the {link.direction} link of {link.host} carried {link.mb_s:.2f} of "
                f"{link.capacity_mb_s:.2f} MB/s: {percent(link.utilization)} of its capacity ({link.known_from})",
                _phase_evidence(facts),
            ),
        )
        yield _uneven_server(facts, suspect) if _stores_most(facts, link.host) else suspect


def _server(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if server := account.server:
        suspect = Suspect(
            cause="server",
            where=f"{server.task} on {server.host}",
            share=account.explained_by_server,
            evidence=(
                f"{server.task} was busy {percent(server.busy)} of the time, with {server.use.cpu_cores:.2f} cores",
                *_cpu_limit_evidence(facts, server.host),
                _phase_evidence(facts),
            ),
            reason="cpu_limit" if facts.host(server.host).cpu_limit_reached else "",
        )
        yield _uneven_server(facts, suspect) if _are_servers_uneven(facts) else suspect


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


def _compute(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    with_throttled = count_throttled_time_as_compute(facts)
    worker = max(with_throttled.workers, key=lambda worker: worker.phases.compute)
    total = facts.phases.total or 1
    throttled = (with_throttled.phases.compute - facts.phases.compute) / total
    cores = ", ".join(f"{worker.task} {worker.use.cpu_cores:.2f}/{worker.threads}" for worker in facts.workers[:4])
    yield Suspect(
        cause="compute",
        where=f"{worker.task} on {worker.host}",
        share=account.compute,
        evidence=(
            f"the workers spent {percent(facts.phases.compute / total)} of their time computing"
            + (f" and {percent(throttled)} on other work slowed down by the CPU limit" if throttled >= 0.01 else ""),
            f"cores used / threads: {cores}",
            *_cpu_limit_evidence(facts, worker.host),
        ),
        reason="cpu_limit" if is_throttled(facts.host(worker.host)) else "",
    )


def _contention(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    saturated = [host for host in facts.hosts if len(host.tasks) > 1 and host.cpu_limit_reached]
    tasks: list[WorkerFacts | ServerFacts] = [*facts.workers, *facts.servers]
    used_cores = sum(task.use.cpu_cores for task in tasks)
    if saturated:
        host = max(saturated, key=lambda host: len(host.tasks))
        where = f"{host.host} ({', '.join(host.tasks)})"
        (use,) = _cpu_limit_evidence(facts, host.host)
    else:
        cores = facts.machine_cores
        longest_waiting = max(tasks, key=lambda task: task.use.waiting_for_core)
        where = f"the machine's {count(cores, 'core')}" if cores else longest_waiting.host
        use = f"{len(tasks)} tasks used {used_cores:.2f} cores"
        use += f"; background load: {facts.background_cores:.2f} cores" if facts.background_cores >= 0.1 else ""
    waits = ", ".join(f"{task.task} {percent(task.use.waiting_for_core)}" for task in tasks[:6])
    yield Suspect(
        cause="contention",
        where=where,
        share=account.waiting_for_core,
        evidence=(f"waiting for a CPU core: {waits} of the time", use),
        reason="background_load" if facts.background_cores >= max(0.5, used_cores) else "",
    )


def _overhead(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    worker = max(facts.workers, key=lambda worker: worker.phases.step_work)
    steps = max(1, sum(worker.steps for worker in facts.workers))
    evidence = [f"a step takes {milliseconds(facts.phases.total / steps)}"]
    if facts.arithmetic_s is not None:
        arithmetic = milliseconds(facts.arithmetic_s)
        evidence.append(f"its arithmetic needs {arithmetic} at the measured matrix-multiplication speed")
    if account.messages > 0.05:
        messages = percent(account.messages)
        evidence.append(f"messages take {messages} of the time although no link or server is saturated")
    yield Suspect(
        cause="overhead",
        where=f"{worker.task} on {worker.host}",
        share=account.framework,
        evidence=tuple(evidence),
        reason="messages" if account.messages > account.framework / 2 else "",
    )


def _barrier(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    last = ", ".join(f"{task} {percent(share)}" for task, share in facts.last_at_barrier.items())
    waits = ", ".join(
        f"{worker.task} {percent(worker.phases.wait / (worker.phases.total or 1))}" for worker in facts.workers[:6]
    )
    yield Suspect(
        cause="barrier",
        where="all workers",
        share=account.wait,
        evidence=(
            f"waiting for other workers: {waits} of the time",
            *([f"last worker to finish a step: {last} of the steps"] if last else []),
        ),
    )


def _input(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "input", "data", account.data)


def _evaluation(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "evaluation", "eval", account.eval)


def _checkpoint(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "checkpoint", "checkpoint", account.checkpoint)


CAUSES: tuple[Callable[[Facts, TimeAccount], Iterator[Suspect]], ...] = (
    _find_slow_worker,
    _startup,
    _network,
    _server,
    _compute,
    _contention,
    _overhead,
    _barrier,
    _input,
    _evaluation,
    _checkpoint,
)
"""One function per cause. Of two suspects with the same share, the one whose function comes first is ranked first."""


def _phase_suspect(facts: Facts, cause: str, phase: str, share: float) -> Suspect:
    """A cause that is one phase, located at the worker that spends the most time in this phase."""
    worker = max(facts.workers, key=lambda worker: float(getattr(worker.phases, phase)))
    phase_s = getattr(worker.phases, phase) / max(1, worker.steps)
    step_s = worker.phases.total / max(1, worker.steps)
    return Suspect(
        cause=cause,
        where=f"{worker.task} on {worker.host}",
        share=share,
        evidence=(f"{cause} takes {milliseconds(phase_s)} of the {milliseconds(step_s)} per step on {worker.task}",),
    )


def _is_explained(facts: Facts, phase: str) -> bool:
    """Whether a busy link or server explains that the worker is slow in this phase."""
    link, server = busiest_link(facts), busiest_server(facts)
    load = max(link.utilization if link else 0.0, server.busy if server else 0.0)
    return phase in ("pull", "push") and load >= SLOWS_EXCHANGE


def _slow_phase(facts: Facts, worker: WorkerFacts) -> str:
    """The phase in which a worker spends the most time per step beyond the mean of the others."""
    others = [other for other in facts.workers if other is not worker]

    def phase_s(worker: WorkerFacts, phase: str) -> float:
        return float(getattr(worker.phases, phase)) / max(1, worker.steps)

    def excess_s(phase: str) -> float:
        return phase_s(worker, phase) - mean(phase_s(other, phase) for other in others)

    return max(("data", "pull", "compute", "push", "other"), key=excess_s)


def _why_slow(facts: Facts, worker: WorkerFacts, phase: str) -> tuple[str, str]:
    """The reason why a worker is slower than the others, and a sentence that explains it."""
    if facts.host(worker.host).cpu_limit_reached:
        return "cpu_limit", _cpu_limit_evidence(facts, worker.host)[0]
    waiting = worker.use.waiting_for_core
    if waiting >= _NOTICEABLE_WAIT:
        return "contention", f"{worker.task} waited for a CPU core {percent(waiting)} of the time"
    if phase in ("pull", "push"):
        return "exchange", f"{worker.task} loses most time in {phase}: its connection to the others is slower"
    return phase, f"{worker.task} loses most time in {phase}"


def _cpu_limit_evidence(facts: Facts, host_name: str) -> list[str]:
    """A sentence about the use of the host's CPU limit; no sentence if the host has no limit."""
    host = facts.host(host_name)
    if host.cpus is None:
        return []
    return [f"the tasks of {host_name} used {host.cpu_cores:.2f} of the {host.cpus:g} cores allowed"]


def _phase_evidence(facts: Facts) -> str:
    phases: Phases = facts.phases
    total = phases.total or 1.0
    return (
        f"worker time: pull {percent(phases.pull / total)}, push {percent(phases.push / total)}, "
        f"wait {percent(phases.wait / total)}, compute {percent(phases.compute / total)}"
    )
