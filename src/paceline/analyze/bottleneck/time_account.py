"""Divides the workers' time among its possible causes. Every value is a share of the time of all workers."""

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, ServerFacts, TaskUse, WorkerFacts

ARITHMETIC_FACTOR = 10
"""Compute time up to this multiple of the pure arithmetic (at the measured speed of matrix products) counts as compute;
what is beyond it is framework overhead. Small models need about 10 times at a batch of 100, large ones 3 or less."""


class TimeAccount(msgspec.Struct, frozen=True, kw_only=True):
    starved: float
    """Waiting for a CPU core that other tasks or programs used, or for a server that did."""
    data: float
    compute: float
    framework: float
    """Framework overhead: compute beyond the arithmetic, time between phases, and `messages`."""
    messages: float
    """Part of `framework`: exchange time that neither a link nor a server explains."""
    wait: float
    """Waiting for other workers."""
    link: LinkFacts | None
    """The link with the highest full; `by_link` is the share of the time that it explains."""
    by_link: float
    server: ServerFacts | None
    """The busiest server; `by_server` is the share of the time that it explains."""
    by_server: float
    eval: float
    checkpoint: float


def time_account(facts: Facts, *, wait_for_one: float = 0.0) -> TimeAccount:
    """`wait_for_one`: share of the time that workers waited for one slow worker; no link or server explains it."""
    total = facts.phases.total or 1.0
    arithmetic = _arithmetic(facts)
    facts = with_own_limits(facts)
    shares = [(worker, _waiting_share(facts, worker)) for worker in facts.workers]
    own_work = {
        name: sum(getattr(worker.phases, name) * (1 - starved) for worker, starved in shares) / total
        for name in ("data", "compute", "other")
    }
    starved = sum((worker.phases.own - worker.phases.exchange) * share for worker, share in shares) / total
    exchange = facts.phases.exchange / total
    starved_exchange = sum(worker.phases.exchange * share for worker, share in shares) / total
    wait = max(0.0, facts.phases.wait / total - wait_for_one)
    server, link = busiest(facts), fullest(facts)
    # A full link or server is considered first: more cores would not make it less full.
    by_link, by_server = _explained_by_link_and_server(facts, link, server, exchange + wait)
    unexplained = exchange + wait - by_link - by_server
    waiting_exchange = min(
        unexplained, starved_exchange + (_waiting_because_of_others(facts, server.host, server.use) if server else 0.0)
    )
    messages = max(0.0, min(unexplained - waiting_exchange, exchange - by_link - by_server - waiting_exchange))
    arithmetic_share = min(1.0, ARITHMETIC_FACTOR * arithmetic)
    return TimeAccount(
        starved=starved + waiting_exchange,
        data=own_work["data"],
        compute=own_work["compute"] * arithmetic_share,
        framework=own_work["compute"] * (1 - arithmetic_share) + own_work["other"] + messages,
        messages=messages,
        wait=max(0.0, unexplained - waiting_exchange - messages),
        link=link,
        by_link=by_link,
        server=server,
        by_server=by_server,
        eval=facts.phases.eval / total,
        checkpoint=facts.phases.checkpoint / total,
    )


def with_own_limits(facts: Facts) -> Facts:
    """Count time in which a task is throttled by its own CPU limit as compute, whatever phase it was in."""
    return msgspec.structs.replace(facts, workers=tuple(_count_as_compute(facts, worker) for worker in facts.workers))


def busiest(facts: Facts) -> ServerFacts | None:
    return max(facts.servers, key=lambda server: server.busy, default=None)


def fullest(facts: Facts) -> LinkFacts | None:
    return max(facts.links, key=lambda link: link.full, default=None)


def is_its_own_limit(host: HostFacts) -> bool:
    """Whether the only task of a host waits for cores because of its CPU limit, not because of other tasks."""
    return len(host.tasks) == 1 and host.is_full


def _waiting_because_of_others(facts: Facts, host: str, use: TaskUse) -> float:
    """Share of the time that a task waited for a core that others used; 0 if cores were free (it only woke up late)."""
    host_facts = facts.host(host)
    no_free_core = host_facts.is_full or facts.machine_is_full(host_facts)
    return use.starved if no_free_core and not is_its_own_limit(host_facts) else 0.0


def _waiting_because_of_own_limit(facts: Facts, worker: WorkerFacts) -> float:
    """Share of the time in which it could have run that its own limit remaining it from running."""
    if not is_its_own_limit(facts.host(worker.host)):
        return 0.0
    return min(1.0, worker.use.starved / max(1 - worker.phases.wait / (worker.phases.total or 1.0), 1e-9))


def _count_as_compute(facts: Facts, worker: WorkerFacts) -> WorkerFacts:
    remaining = 1 - _waiting_because_of_own_limit(facts, worker)
    phases = worker.phases
    reduced = {name: getattr(phases, name) * remaining for name in ("data", "pull", "push", "other")}
    lost = sum(getattr(phases, name) - reduced[name] for name in reduced)
    return msgspec.structs.replace(
        worker, phases=msgspec.structs.replace(phases, compute=phases.compute + lost, **reduced)
    )


def _waiting_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of a worker's runnable time in which it waited for a core that others used."""
    waiting = worker.phases.wait / (worker.phases.total or 1.0)
    return min(1.0, _waiting_because_of_others(facts, worker.host, worker.use) / max(1 - waiting, 1e-9))


def _explained_by_link_and_server(
    facts: Facts, link: LinkFacts | None, server: ServerFacts | None, limit: float
) -> tuple[float, float]:
    """Shares of the exchange that the fullest link and the busiest server explain.

    A link that is full half of the time explains half of the time; the one with the higher full goes first.
    """
    starved = _waiting_because_of_others(facts, server.host, server.use) if server else 0.0
    full, busy = link.full if link else 0.0, max(0.0, server.busy - starved) if server else 0.0
    first = min(limit, max(full, busy))
    second = min(limit - first, min(full, busy))
    return (first, second) if full >= busy else (second, first)


def _arithmetic(facts: Facts) -> float:
    """Share of the compute time on a core that pure arithmetic would take at least."""
    if facts.arithmetic_s is None:
        return 1.0
    compute_on_core_s = sum(
        worker.phases.compute * (1 - _waiting_because_of_own_limit(facts, worker)) * (1 - _waiting_share(facts, worker))
        for worker in facts.workers
    )
    return facts.arithmetic_s * sum(worker.steps for worker in facts.workers) / max(compute_on_core_s, 1e-9)
