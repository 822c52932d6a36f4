"""The workers' time, shared out among what may have caused it. Every figure is a share of all their time."""

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, ServerFacts, TaskUse, WorkerFacts

CALCULATING = 10
"""Compute that reaches a tenth of the speed of plain matrix products is calculating; what is slower than that by far is
the framework going about its business. Small models reach a tenth at a batch of 100, large ones a third and more."""


class TimeAccount(msgspec.Struct, frozen=True, kw_only=True):
    starved: float
    """Ready to run, or waiting for a server that was, but no core was free: others had them."""
    data: float
    compute: float
    framework: float
    """Compute that is not calculating, time between phases, and messages that nothing was full of."""
    messages: float
    """Of that, the messages."""
    wait: float
    """For each other."""
    link: LinkFacts | None
    """The fullest, and the share of the time that it explains."""
    by_link: float
    server: ServerFacts | None
    """The busiest, likewise."""
    by_server: float
    eval: float
    checkpoint: float


def time_account(facts: Facts, *, wait_for_one: float = 0.0) -> TimeAccount:
    """`wait_for_one`: the share that workers spent waiting for one slow worker, which no link or server explains."""
    total = facts.phases.total or 1.0
    arithmetic = _arithmetic(facts)
    facts = with_own_limits(facts)
    shares = [(worker, _starved_share(facts, worker)) for worker in facts.workers]
    alone = {
        name: sum(getattr(worker.phases, name) * (1 - starved) for worker, starved in shares) / total
        for name in ("data", "compute", "other")
    }
    starved = sum((worker.phases.own - worker.phases.exchange) * share for worker, share in shares) / total
    exchange = facts.phases.exchange / total
    starved_exchange = sum(worker.phases.exchange * share for worker, share in shares) / total
    wait = max(0.0, facts.phases.wait / total - wait_for_one)
    server, link = busiest(facts), fullest(facts)
    # A full link or server comes first: with more cores, it would be as full.
    by_link, by_server = _limits(facts, link, server, exchange + wait)
    left = exchange + wait - by_link - by_server
    held_up = min(left, starved_exchange + (_starved_by_others(facts, server.host, server.use) if server else 0.0))
    messages = max(0.0, min(left - held_up, exchange - by_link - by_server - held_up))
    calculating = min(1.0, CALCULATING * arithmetic)
    return TimeAccount(
        starved=starved + held_up,
        data=alone["data"],
        compute=alone["compute"] * calculating,
        framework=alone["compute"] * (1 - calculating) + alone["other"] + messages,
        messages=messages,
        wait=max(0.0, left - held_up - messages),
        link=link,
        by_link=by_link,
        server=server,
        by_server=by_server,
        eval=facts.phases.eval / total,
        checkpoint=facts.phases.checkpoint / total,
    )


def with_own_limits(facts: Facts) -> Facts:
    """A task that may not use more of the core is slow in all it does: all that is work to be done with too little."""
    return msgspec.structs.replace(facts, workers=tuple(_as_compute(facts, worker) for worker in facts.workers))


def busiest(facts: Facts) -> ServerFacts | None:
    return max(facts.servers, key=lambda server: server.busy, default=None)


def fullest(facts: Facts) -> LinkFacts | None:
    return max(facts.links, key=lambda link: link.full, default=None)


def is_its_own_limit(host: HostFacts) -> bool:
    """Whether the host's one task lacks cores because it may not use more, and not because others do."""
    return len(host.tasks) == 1 and host.is_full


def _starved_by_others(facts: Facts, host: str, use: TaskUse) -> float:
    """Share of the time that a task was ready but others had the cores; with cores free, it was only slow to wake."""
    found = facts.host(host)
    return use.starved if not is_its_own_limit(found) and (found.is_full or facts.machine_is_full) else 0.0


def _starved_by_itself(facts: Facts, worker: WorkerFacts) -> float:
    """Share of the time in which it could have run that its own limit kept it from running."""
    if not is_its_own_limit(facts.host(worker.host)):
        return 0.0
    return min(1.0, worker.use.starved / max(1 - worker.phases.wait / (worker.phases.total or 1.0), 1e-9))


def _as_compute(facts: Facts, worker: WorkerFacts) -> WorkerFacts:
    kept = 1 - _starved_by_itself(facts, worker)
    phases = worker.phases
    cut = {name: getattr(phases, name) * kept for name in ("data", "pull", "push", "other")}
    lost = sum(getattr(phases, name) - cut[name] for name in cut)
    return msgspec.structs.replace(worker, phases=msgspec.structs.replace(phases, compute=phases.compute + lost, **cut))


def _starved_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of the time in which the worker could have run that it had no core."""
    waiting = worker.phases.wait / (worker.phases.total or 1.0)
    return min(1.0, _starved_by_others(facts, worker.host, worker.use) / max(1 - waiting, 1e-9))


def _limits(facts: Facts, link: LinkFacts | None, server: ServerFacts | None, at_most: float) -> tuple[float, float]:
    """How much of the exchange the fullest link and the busiest server explain: a link that is full half of the time
    explains half of the time, and whichever is fuller explains first."""
    starved = _starved_by_others(facts, server.host, server.use) if server else 0.0
    full, busy = link.full if link else 0.0, max(0.0, server.busy - starved) if server else 0.0
    first = min(at_most, max(full, busy))
    second = min(at_most - first, min(full, busy))
    return (first, second) if full >= busy else (second, first)


def _arithmetic(facts: Facts) -> float:
    """Share of the time spent computing, on a core, that calculating takes at best."""
    if facts.arithmetic_s is None:
        return 1.0
    on_a_core = sum(
        worker.phases.compute * (1 - _starved_by_itself(facts, worker)) * (1 - _starved_share(facts, worker))
        for worker in facts.workers
    )
    return facts.arithmetic_s * sum(worker.steps for worker in facts.workers) / max(on_a_core, 1e-9)
