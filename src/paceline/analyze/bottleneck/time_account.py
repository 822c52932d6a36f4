"""Divides the workers' time by what it was spent on. Every value is a share of the time of all workers together, and
all shares add up to 1."""

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, ServerFacts, TaskUse, WorkerFacts

MAX_COMPUTE_OVER_ARITHMETIC = 10
"""Arithmetic time = operations of the step / measured speed of matrix products. Compute time up to this multiple of it
counts as compute, the rest as framework overhead. Measured: small models take about 10 times the arithmetic time at a
batch of 100, large ones at most 3 times."""


class TimeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the time of all workers, by what the time was spent on."""

    slow_worker: float
    """Lost because one worker is slower than the others: its additional time, and waiting for it."""
    waiting_for_core: float
    """Workers waited for a CPU core that other tasks or programs used, or for a server that waited for a core."""
    data: float
    """Loading data, without waiting for a core."""
    compute: float
    """Computing, without waiting for a core and without framework overhead; with `throttled`."""
    throttled: float
    """Other work that took longer because the worker's own CPU limit was reached. It is included in `compute`."""
    framework: float
    """Framework overhead: compute beyond the arithmetic, time between phases, and `messages`."""
    messages: float
    """Cost of handling messages: exchange time that neither a link, a server nor waiting for a core explains. It is
    included in `framework`."""
    passing: float
    """The same if every exchange is one with the same server: passing parameters and gradients through it. It is
    included in `explained_by_server`."""
    wait: float
    """Waiting for other workers."""
    scheduler: float
    """Waiting for the framework's scheduler."""
    gc: float
    """Garbage collection of the framework's runtime."""
    link: LinkFacts | None
    """The link with the highest utilization."""
    explained_by_link: float
    """Exchange and waiting time that the utilization of `link` explains."""
    server: ServerFacts | None
    """The busiest parameter server."""
    explained_by_server: float
    """Exchange and waiting time that the load of `server` explains."""
    eval: float
    """Evaluation by the chief."""
    checkpoint: float
    """Writing checkpoints."""
    unknown: float
    """Fused calls whose phases are not known, without the part that a link, a server or waiting for a core explains."""


def time_account(facts: Facts, remaining: tuple[WorkerFacts, ...] | None = None) -> TimeAccount:
    """The account of a run. `remaining` are the workers without the time that is lost because of a slow worker."""
    total = facts.phases.total or 1.0
    without_slow = msgspec.structs.replace(facts, workers=facts.workers if remaining is None else remaining)
    core_waits = [core_wait_share(facts, worker) for worker in facts.workers]
    arithmetic_share = min(1.0, MAX_COMPUTE_OVER_ARITHMETIC * _arithmetic_over_compute(facts))
    workers = tuple(
        _count_as_compute(worker, throttled_share(facts, measured))
        for worker, measured in zip(without_slow.workers, facts.workers, strict=True)
    )
    phases = msgspec.structs.replace(facts, workers=workers).phases
    # What the scheduler and the garbage collector took is known, and is part of no other cause.
    scheduler_s = sum(min(one.scheduler_s, one.phases.wait) for one in workers)
    gc_s = sum(min(one.gc_s, one.phases.other) for one in workers)
    phases = msgspec.structs.replace(phases, wait=phases.wait - scheduler_s, other=phases.other - gc_s)

    def waiting(name: str) -> float:
        """Time of a phase in which the workers waited for a core. None of it is lost because of a slow worker."""
        times = (getattr(one.phases, name) * share for one, share in zip(facts.workers, core_waits, strict=True))
        waited = float(sum(times)) / total
        # Garbage collection is part of `other`, and none of it counts as waiting.
        return min(waited, phases.other / total) if name == "other" else waited

    running = {name: max(0.0, getattr(phases, name) / total - waiting(name)) for name in ("data", "compute", "other")}
    exchange, wait, fused = phases.exchange / total, phases.wait / total, phases.fused / total
    server, link = busiest_server(facts), busiest_link(facts)
    # A saturated link or server is considered first: more cores would not reduce its load.
    by_link, by_server = _explained_by_link_and_server(facts, link, server, exchange + wait + fused)
    # Their time is taken from the phases that are known to be exchange or waiting, and then from fused calls.
    explained = min(by_link + by_server, exchange + wait)
    fused_left = max(0.0, fused - (by_link + by_server - explained))
    waiting_in_fused = min(fused_left, waiting("fused"))
    unexplained = exchange + wait - explained
    waiting_in_exchange = min(unexplained, waiting("pull") + waiting("push") + _server_waiting_for_core(facts, server))
    # A driver counts as busy while no worker has a task: this explains waiting before it explains exchange.
    explained_wait = min(by_server, wait) if facts.one_server else 0.0
    unexplained_exchange = max(0.0, exchange - (explained - explained_wait) - waiting_in_exchange)
    passing = unexplained_exchange if facts.one_server and server else 0.0
    messages = unexplained_exchange - passing
    waiting_outside = waiting("data") + waiting("compute") + waiting("other")
    return TimeAccount(
        slow_worker=max(0.0, 1 - (phases.total + scheduler_s + gc_s) / total) if facts.phases.total else 0.0,
        waiting_for_core=waiting_outside + waiting_in_exchange + waiting_in_fused,
        data=running["data"],
        compute=running["compute"] * arithmetic_share,
        throttled=sum(map(_moved_s, workers, without_slow.workers)) / total * arithmetic_share,
        framework=running["compute"] * (1 - arithmetic_share) + running["other"] + messages,
        messages=messages,
        passing=passing,
        wait=max(0.0, unexplained - waiting_in_exchange - unexplained_exchange),
        scheduler=scheduler_s / total,
        gc=gc_s / total,
        link=link,
        explained_by_link=by_link,
        server=server,
        explained_by_server=by_server + passing,
        eval=phases.eval / total,
        checkpoint=phases.checkpoint / total,
        unknown=fused_left - waiting_in_fused,
    )


def busiest_server(facts: Facts) -> ServerFacts | None:
    return max(facts.servers, key=lambda server: server.busy, default=None)


def busiest_link(facts: Facts) -> LinkFacts | None:
    return max(facts.links, key=lambda link: link.utilization, default=None)


def is_throttled(host: HostFacts) -> bool:
    """Whether the only task of a host waits for cores because of its CPU limit, not because of other tasks."""
    return len(host.tasks) == 1 and host.cpu_limit_reached


def core_wait_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of a worker's runnable time in which it waited for a core that others used."""
    waiting = worker.phases.wait / (worker.phases.total or 1.0)
    return min(1.0, _waiting_because_of_others(facts, worker.host, worker.use) / max(1 - waiting, 1e-9))


def compute_s(facts: Facts, worker: WorkerFacts) -> float:
    """Seconds that a worker computed, and those in which its own CPU limit slowed down its other work."""
    return _count_as_compute(worker, throttled_share(facts, worker)).phases.compute


def _moved_s(worker: WorkerFacts, before: WorkerFacts) -> float:
    """Seconds that were moved to compute from other phases."""
    return worker.phases.compute - before.phases.compute


def _waiting_because_of_others(facts: Facts, host_name: str, use: TaskUse) -> float:
    """Share of the time that a task waited for a core that other tasks or programs used.

    It is 0 if cores were free: then the task waited only because the system was slow to wake it up.
    """
    host = facts.host(host_name)
    if is_throttled(host) or not (host.cpu_limit_reached or facts.machine_is_saturated(host)):
        return 0.0
    return use.waiting_for_core


def _server_waiting_for_core(facts: Facts, server: ServerFacts | None) -> float:
    return _waiting_because_of_others(facts, server.host, server.use) if server else 0.0


def throttled_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of a worker's runnable time in which its own CPU limit kept it from running."""
    if not is_throttled(facts.host(worker.host)):
        return 0.0
    return min(1.0, worker.use.waiting_for_core / max(1 - worker.phases.wait / (worker.phases.total or 1.0), 1e-9))


def _count_as_compute(worker: WorkerFacts, throttled_share: float) -> WorkerFacts:
    """The worker with the time in which its own CPU limit throttled it moved from every phase to compute."""
    phases = worker.phases
    names = ("data", "pull", "push", "fused", "other")
    reduced = {name: getattr(phases, name) * (1 - throttled_share) for name in names}
    throttled_s = sum(getattr(phases, name) - reduced[name] for name in names)
    return msgspec.structs.replace(
        worker, phases=msgspec.structs.replace(phases, compute=phases.compute + throttled_s, **reduced)
    )


def _explained_by_link_and_server(
    facts: Facts, link: LinkFacts | None, server: ServerFacts | None, limit: float
) -> tuple[float, float]:
    """Shares of the workers' time that the busiest link and the busiest server explain, together at most `limit`.

    A link that is used at 50 % of its capacity explains up to 50 % of the time. The one with the higher load comes
    first, and the other explains at most the time that is left. `limit` is the share of exchange and waiting.
    """
    utilization = link.utilization if link else 0.0
    busy = max(0.0, server.busy - _server_waiting_for_core(facts, server)) if server else 0.0
    first = min(limit, max(utilization, busy))
    second = min(limit - first, min(utilization, busy))
    return (first, second) if utilization >= busy else (second, first)


def _arithmetic_over_compute(facts: Facts) -> float:
    """Pure arithmetic time / measured compute time, without throttling and waiting for a core; 1 if not known."""
    if facts.arithmetic_s is None:
        return 1.0
    compute_on_core_s = sum(
        worker.phases.compute * (1 - throttled_share(facts, worker)) * (1 - core_wait_share(facts, worker))
        for worker in facts.workers
    )
    return facts.arithmetic_s * sum(worker.steps for worker in facts.workers) / max(compute_on_core_s, 1e-9)
