"""Divides the workers' time by what it was spent on. Every value is a share of the time of all workers together."""

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, ServerFacts, TaskUse, WorkerFacts

MAX_COMPUTE_OVER_ARITHMETIC = 10
"""Arithmetic time = operations of the step / measured speed of matrix products. Compute time up to this multiple of it
counts as compute, the rest as framework overhead. Measured: small models take about 10 times the arithmetic time at a
batch of 100, large ones at most 3 times."""


class TimeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the time of all workers, by what the time was spent on."""

    waiting_for_core: float
    """Workers waited for a CPU core that other tasks or programs used, or for a server that waited for a core."""
    data: float
    """Loading data, without waiting for a core."""
    compute: float
    """Computing, without waiting for a core and without framework overhead."""
    framework: float
    """Framework overhead: compute beyond the arithmetic, time between phases, and `messages`."""
    messages: float
    """Cost of handling messages: exchange time that neither a link, a server nor waiting for a core explains. It is
    included in `framework`."""
    wait: float
    """Waiting for other workers."""
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


def time_account(facts: Facts, *, wait_for_straggler: float = 0.0) -> TimeAccount:
    """The account of a run.

    `wait_for_straggler` is the share of the time that workers waited for one slow worker. It is left out of the
    account, because no link or server explains it; the shares then add up to less than 1.
    """
    total = facts.phases.total or 1.0
    arithmetic_share = min(1.0, MAX_COMPUTE_OVER_ARITHMETIC * _arithmetic_over_compute(facts))
    # After the arithmetic share, which is computed without throttled time.
    facts = count_throttled_time_as_compute(facts)
    core_waits = [(worker, _core_wait_share(facts, worker)) for worker in facts.workers]
    running = {
        name: sum(getattr(worker.phases, name) * (1 - waiting) for worker, waiting in core_waits) / total
        for name in ("data", "compute", "other")
    }
    core_wait_outside_exchange = (
        sum((worker.phases.step_work - worker.phases.exchange) * share for worker, share in core_waits) / total
    )
    exchange = facts.phases.exchange / total
    wait = max(0.0, facts.phases.wait / total - wait_for_straggler)
    server, link = busiest_server(facts), busiest_link(facts)
    # A saturated link or server is considered first: more cores would not reduce its load.
    by_link, by_server = _explained_by_link_and_server(facts, link, server, exchange + wait)
    unexplained = exchange + wait - by_link - by_server
    core_wait_in_exchange = sum(worker.phases.exchange * share for worker, share in core_waits) / total
    core_wait_in_exchange = min(unexplained, core_wait_in_exchange + _server_waiting_for_core(facts, server))
    messages = max(0.0, exchange - by_link - by_server - core_wait_in_exchange)
    return TimeAccount(
        waiting_for_core=core_wait_outside_exchange + core_wait_in_exchange,
        data=running["data"],
        compute=running["compute"] * arithmetic_share,
        framework=running["compute"] * (1 - arithmetic_share) + running["other"] + messages,
        messages=messages,
        wait=max(0.0, unexplained - core_wait_in_exchange - messages),
        link=link,
        explained_by_link=by_link,
        server=server,
        explained_by_server=by_server,
        eval=facts.phases.eval / total,
        checkpoint=facts.phases.checkpoint / total,
    )


def count_throttled_time_as_compute(facts: Facts) -> Facts:
    """The facts with the time in which a worker's own CPU limit throttled it moved from every phase to compute."""
    return msgspec.structs.replace(facts, workers=tuple(_count_as_compute(facts, worker) for worker in facts.workers))


def busiest_server(facts: Facts) -> ServerFacts | None:
    return max(facts.servers, key=lambda server: server.busy, default=None)


def busiest_link(facts: Facts) -> LinkFacts | None:
    return max(facts.links, key=lambda link: link.utilization, default=None)


def is_throttled(host: HostFacts) -> bool:
    """Whether the only task of a host waits for cores because of its CPU limit, not because of other tasks."""
    return len(host.tasks) == 1 and host.cpu_limit_reached


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


def _throttled_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of a worker's runnable time in which its own CPU limit kept it from running."""
    if not is_throttled(facts.host(worker.host)):
        return 0.0
    return min(1.0, worker.use.waiting_for_core / max(1 - worker.phases.wait / (worker.phases.total or 1.0), 1e-9))


def _count_as_compute(facts: Facts, worker: WorkerFacts) -> WorkerFacts:
    remaining = 1 - _throttled_share(facts, worker)
    phases = worker.phases
    reduced = {name: getattr(phases, name) * remaining for name in ("data", "pull", "push", "other")}
    throttled_s = sum(getattr(phases, name) - reduced[name] for name in reduced)
    return msgspec.structs.replace(
        worker, phases=msgspec.structs.replace(phases, compute=phases.compute + throttled_s, **reduced)
    )


def _core_wait_share(facts: Facts, worker: WorkerFacts) -> float:
    """Share of a worker's runnable time in which it waited for a core that others used."""
    waiting = worker.phases.wait / (worker.phases.total or 1.0)
    return min(1.0, _waiting_because_of_others(facts, worker.host, worker.use) / max(1 - waiting, 1e-9))


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
        worker.phases.compute * (1 - _throttled_share(facts, worker)) * (1 - _core_wait_share(facts, worker))
        for worker in facts.workers
    )
    return facts.arithmetic_s * sum(worker.steps for worker in facts.workers) / max(compute_on_core_s, 1e-9)
