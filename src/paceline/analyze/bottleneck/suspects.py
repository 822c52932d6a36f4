"""Lists the candidates for the bottleneck of a run, each with its share of the workers' time and its evidence.

Every cause has one function that takes the facts and the time account and yields its suspects. To add a cause, write
such a function and add it to the tuple `CAUSES`; `remedies.py` holds the advice for each cause.

The shares of all suspects add up to 1: they are the parts of one account. Evidence states measured values; where it
states a share of the workers' time, it is a part of that account too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, ServerFacts, WorkerFacts
from paceline.analyze.bottleneck.slow_worker import OVERLOAD_FACTOR, SlowWorker, find_slow_worker
from paceline.analyze.bottleneck.time_account import TimeAccount, compute_s, is_throttled, time_account
from paceline.present.numbers import count, milliseconds, percent

FEW_STEPS = 50
"""With fewer steps, startup may be the bottleneck of a run."""
UNKNOWN = "unknown"
"""The cause of the time that no cause explains."""
_NOTICEABLE_WAIT = 0.2
"""A worker that waits for a CPU core for this share of the time is slow because of that."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for the bottleneck."""

    cause: str
    where: str
    share: float
    """Share of the workers' time; if startup is a suspect, share of the time of startup and training."""
    evidence: tuple[str, ...] = ()
    threads: int = 1
    """The most compute threads of a worker, if the remedy depends on it."""
    reason: str = ""
    """What leads to the cause, if the remedy depends on it: `cpu_limit`, `background_load`, `uneven_servers`,
    `contention`, `exchange`, `messages`, `fewer_threads` or the phase in which a slow worker loses its time."""
    fitting_workers: Mapping[str, int] = {}
    """For contention: how many workers of each host the contended cores can carry."""
    takes_over: Mapping[str, float] = {}
    """For a cause that explains time of other causes better: how much of the share of each other cause it contains.
    The others lose this part, so that no time is counted twice."""
    host: str = ""
    """The host that it is about, if the remedy depends on it."""


def suspects(facts: Facts) -> list[Suspect]:
    """All candidates with a share above 0, the largest share first. Their shares add up to 1."""
    slow = find_slow_worker(facts)
    account = time_account(facts, slow.remaining if slow else None)
    found = [suspect for find in CAUSES for suspect in find(facts, account)]
    if slow:
        found.insert(0, _slow_worker(facts, slow, account.slow_worker))
    candidates = [suspect for suspect in _merge(_without_taken_over(found)) if suspect.share > 0]
    return sorted(_with_startup(facts, candidates), key=lambda suspect: -suspect.share)


def _without_taken_over(found: list[Suspect]) -> list[Suspect]:
    taken: dict[str, float] = {}
    for suspect in found:
        for cause, share in suspect.takes_over.items():
            taken[cause] = taken.get(cause, 0.0) + share
    return [_with_share(suspect, max(0.0, suspect.share - taken.get(suspect.cause, 0.0))) for suspect in found]


def _merge(found: list[Suspect]) -> list[Suspect]:
    """One suspect for each cause and place: a link and a server that are busy for the same reason are one cause."""
    merged: dict[tuple[str, str], Suspect] = {}
    for suspect in found:
        key = suspect.cause, suspect.where
        earlier = merged.get(key)
        merged[key] = _with_share(earlier, earlier.share + suspect.share) if earlier else suspect
    return list(merged.values())


def _with_share(suspect: Suspect, share: float) -> Suspect:
    return msgspec.structs.replace(suspect, share=share)


def _with_startup(facts: Facts, candidates: list[Suspect]) -> list[Suspect]:
    """The candidates, and startup if it took most of the run; shares are then of startup and training together."""
    if facts.steps >= FEW_STEPS or facts.startup_s <= 2 * facts.seconds:
        return candidates
    share = facts.startup_s / (facts.startup_s + facts.seconds)
    startup = Suspect(
        cause="startup",
        where="the whole run",
        share=share,
        evidence=(
            f"startup (until every worker's first step) took {facts.startup_s:.1f} s, training {facts.seconds:.2f} s",
            f"the worker with the fewest steps made {facts.steps}",
        ),
    )
    return [startup, *(_with_share(suspect, suspect.share * (1 - share)) for suspect in candidates)]


def _slow_worker(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    return _straggler(facts, slow, share) if facts.synchronous else _uneven_workers(facts, slow, share)


def _straggler(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    worker, last = slow.worker, facts.last_at_barrier.get(slow.worker.task)
    reason, explanation = _why_slow(facts, worker, slow.phase)
    return Suspect(
        cause="straggler",
        where=f"{worker.task} on {worker.host}",
        share=share,
        evidence=(
            f"a step takes {milliseconds(slow.step_s)} on {worker.task}, {milliseconds(slow.others_s)} on the others "
            f"({slow.step_s / max(slow.others_s, 1e-9):.1f}×)",
            *([f"{worker.task} was the last worker in {percent(last)} of the steps"] if last is not None else []),
            explanation,
        ),
        reason=reason,
    )


def _uneven_workers(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    most = max(facts.workers, key=lambda worker: worker.steps)
    least, steps = slow.worker, sum(worker.steps for worker in facts.workers)
    reason, explanation = _why_slow(facts, least, slow.phase)
    return Suspect(
        cause="imbalance",
        where=f"{most.task} on {most.host}",
        share=share,
        evidence=(
            f"{most.task} made {percent(most.steps / steps)} of the updates; an even share is "
            f"{percent(1 / len(facts.workers))}",
            f"{least.task} on {least.host} made {percent(least.steps / steps)} of the updates",
            explanation,
        ),
        reason=reason,
    )


def _network(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
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


def _server(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if server := account.server:
        suspect = Suspect(
            cause="server",
            where=f"{server.task} on {server.host}",
            share=account.explained_by_server,
            evidence=(
                f"{server.task} was busy {percent(server.busy)} of the time, with {server.use.cpu_cores:.2f} cores",
                *_cpu_limit_evidence(facts, server.host),
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
    worker = max(facts.workers, key=lambda worker: compute_s(facts, worker))
    cores = ", ".join(f"{worker.task} {worker.use.cpu_cores:.2f}/{worker.threads}" for worker in facts.workers[:4])
    yield Suspect(
        cause="compute",
        where=f"{worker.task} on {worker.host}",
        share=account.compute,
        evidence=(
            f"cores used / threads: {cores}",
            *_cpu_limit_evidence(facts, worker.host),
            *_throttled_evidence(account),
        ),
        reason="cpu_limit" if is_throttled(facts.host(worker.host)) else "",
    )


def _throttled_evidence(account: TimeAccount) -> list[str]:
    if account.throttled < 0.01:
        return []
    part = percent(account.throttled / account.compute)
    return [f"of the compute time, {part} is other work that the CPU limit slowed down"]


def _contention(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    saturated = [host for host in facts.hosts if len(host.tasks) > 1 and host.cpu_limit_reached]
    all_tasks: list[WorkerFacts | ServerFacts] = [*facts.workers, *facts.servers]
    tasks, background = all_tasks, facts.background_cores
    host = max(saturated, key=lambda host: len(host.tasks), default=None)
    if host:
        where = f"{host.host} ({', '.join(host.tasks)})"
        (use,) = _cpu_limit_evidence(facts, host.host)
        cores = host.cpus or 1.0
    elif facts.machine_cores:
        where = f"the machine's {count(facts.machine_cores, 'core')}"
        use = _core_use(tasks, background)
        cores = facts.machine_cores - background
    else:
        # Every host is a machine of its own: only what runs there competes for its cores.
        host = _host_with_longest_wait(facts, all_tasks)
        tasks, background = [task for task in all_tasks if task.host == host.host], host.background_cores
        where = f"{host.host} ({count(host.cores, 'core')})" if host.cores else host.host
        use = _core_use(tasks, background)
        cores = host.cores - background
    waits = ", ".join(f"{task.task} {task.use.run_wait:.2f}" for task in tasks[:6])
    used_cores = sum(task.use.cpu_cores for task in tasks)
    yield Suspect(
        cause="contention",
        where=where,
        share=account.waiting_for_core,
        evidence=(f"threads that waited for a CPU core, on average: {waits}", use),
        threads=_most_threads(facts),
        reason="background_load" if background >= max(0.5, used_cores) else "",
        fitting_workers=_fitting_workers([one for one in facts.workers if not host or one.host == host.host], cores),
        host=host.host if host else "",
    )


def _fitting_workers(workers: list[WorkerFacts], cores: float) -> dict[str, int]:
    """How many of the workers of each host these cores can carry, without changing the order of the workers.

    A worker needs the cores that it used and those that it waited for, and at least one.
    """
    needed = mean(worker.use.cpu_cores + worker.use.run_wait for worker in workers) if workers else 1.0
    fitting = max(1, round(cores / max(1.0, needed)))
    kept = [worker.host for worker in workers[:fitting]]
    return {worker.host: kept.count(worker.host) for worker in workers}


def _host_with_longest_wait(facts: Facts, tasks: Sequence[WorkerFacts | ServerFacts]) -> HostFacts:
    """The host of the task that waited longest for a core, among hosts whose cores were used up if there are any."""
    full = [task for task in tasks if facts.machine_is_saturated(facts.host(task.host))]
    return facts.host(max(full or tasks, key=lambda task: task.use.waiting_for_core).host)


def _core_use(tasks: Sequence[WorkerFacts | ServerFacts], background_cores: float) -> str:
    used = f"{count(len(tasks), 'task')} used {sum(task.use.cpu_cores for task in tasks):.2f} cores"
    return used + (f"; background load: {background_cores:.2f} cores" if background_cores >= 0.1 else "")


def _overhead(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    worker = max(facts.workers, key=lambda worker: worker.phases.step_work)
    steps = max(1, sum(worker.steps for worker in facts.workers))
    evidence = [f"a step takes {milliseconds(facts.phases.total / steps)}"]
    if facts.arithmetic_s is not None:
        arithmetic = milliseconds(facts.arithmetic_s)
        evidence.append(f"its arithmetic needs {arithmetic} at the measured matrix-multiplication speed")
    if account.messages > 0.05:
        messages = percent(account.messages / account.framework)
        evidence.append(f"of the overhead, {messages} is messages, although no link or server is saturated")
    yield Suspect(
        cause="overhead",
        where=f"{worker.task} on {worker.host}",
        share=account.framework,
        evidence=tuple(evidence),
        threads=_most_threads(facts),
        reason="messages" if account.messages > account.framework / 2 else "",
    )


def _most_threads(facts: Facts) -> int:
    return max(worker.threads for worker in facts.workers)


def _barrier(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    last = ", ".join(f"{task} {percent(share)}" for task, share in facts.last_at_barrier.items())
    waits = ", ".join(
        f"{worker.task} {milliseconds(worker.phases.wait / max(1, worker.steps))}" for worker in facts.workers[:6]
    )
    yield Suspect(
        cause="barrier",
        where="all workers",
        share=account.wait,
        evidence=(
            f"waiting for other workers in a step: {waits}",
            *([f"last worker to finish a step: {last} of the steps"] if last else []),
        ),
    )


def _input(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "input", "data", account.data)


def _evaluation(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "evaluation", "eval", account.eval)


def _checkpoint(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield _phase_suspect(facts, "checkpoint", "checkpoint", account.checkpoint)


def _unknown(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield Suspect(
        cause=UNKNOWN,
        where="",
        share=account.unknown,
        evidence=("no step was traced, so the phases of the framework's calls are not known",),
    )


CAUSES: tuple[Callable[[Facts, TimeAccount], Iterator[Suspect]], ...] = (
    _network,
    _server,
    _compute,
    _contention,
    _overhead,
    _barrier,
    _input,
    _evaluation,
    _checkpoint,
    _unknown,
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


def _why_slow(facts: Facts, worker: WorkerFacts, phase: str) -> tuple[str, str]:
    """The reason why a worker is slower than the others, and a sentence that explains it."""
    if facts.host(worker.host).cpu_limit_reached:
        return "cpu_limit", _cpu_limit_evidence(facts, worker.host)[0]
    waiting = worker.use.waiting_for_core
    if waiting >= _NOTICEABLE_WAIT:
        threads = worker.use.run_wait
        return "contention", f"on average {threads:.2f} threads of {worker.task} waited for a CPU core"
    if phase in ("pull", "push"):
        return "exchange", f"{worker.task} loses most time in {phase}: its connection to the others is slower"
    fewest = min(other.threads for other in facts.workers if other is not worker)
    if phase == "compute" and worker.threads < fewest:
        own = count(worker.threads, "thread")
        return "fewer_threads", f"{worker.task} computes with {own}, every other worker with {fewest} or more"
    return phase, f"{worker.task} loses most time in {phase}"


def _cpu_limit_evidence(facts: Facts, host_name: str) -> list[str]:
    """A sentence about the use of the host's CPU limit; no sentence if the host has no limit."""
    host = facts.host(host_name)
    if host.cpus is None:
        return []
    return [f"the tasks of {host_name} used {host.cpu_cores:.2f} of the {host.cpus:g} cores allowed"]
