"""Finds a worker that is slower than the others, and the time that is lost because of it."""

from statistics import mean, median

import msgspec

from paceline.analyze.bottleneck.facts import STEP_PHASES, Facts, Phases, WorkerFacts
from paceline.analyze.bottleneck.time_account import busiest_link, busiest_server, core_wait_share, throttled_share

STRAGGLER_FACTOR = 1.25
"""A straggler's step takes this many times as long as the others'. Equal workers on a busy machine differ by 20 %."""
OVERLOAD_FACTOR = 1.5
"""A worker or server is overloaded if it makes this many times its even share of the updates or of the work."""
SLOWS_EXCHANGE = 0.5
"""A link or server that is busy for this share of the time explains slow pulls and pushes."""


class SlowWorker(msgspec.Struct, frozen=True, kw_only=True):
    """The straggler of a synchronous run, or the slowest worker of an asynchronous run with uneven workers."""

    worker: WorkerFacts
    phase: str
    """The phase in which it loses the most time."""
    part: str
    """Of a user's script, the part of that phase in which it loses the most time, such as backward; else the phase."""
    step_s: float
    """Work of the worker on one step."""
    others_s: float
    """The same of the others: of a straggler the median, of an uneven worker that of the quickest."""
    remaining: tuple[WorkerFacts, ...]
    """All workers, without the time that is lost because of this one. Time in which a worker waited for a core is not
    lost because of a slow worker, but because of those that used the core."""


def find_slow_worker(facts: Facts) -> SlowWorker | None:
    if len(facts.workers) < 2:
        return None
    return _straggler(facts) if facts.synchronous else _uneven_worker(facts)


def _straggler(facts: Facts) -> SlowWorker | None:
    slowest = max(facts.workers, key=_work_s)
    measured = [worker for worker in facts.workers if worker is not slowest]
    slowed_s = _slowed_exchange_s(facts, slowest)
    others = [_with_shorter_exchange(worker, slowed_s) for worker in measured]
    slowest_s, others_s = _work_s(slowest), median(map(_work_s, others))
    last = facts.last_at_barrier.get(slowest.task)
    phase = _slow_phase(facts, slowest)
    if slowest_s < STRAGGLER_FACTOR * others_s or (last is not None and last < 0.5) or _is_explained(facts, phase):
        return None
    lost_s = slowest_s - others_s
    waited_s = {one.task: lost_s - (_work_s(one) - _work_s(less)) for one, less in zip(measured, others, strict=True)}
    without_exchange = {worker.task: worker for worker in others}
    remaining = tuple(
        _without_excess(facts, worker, lost_s * worker.steps, _running_step(facts, others))
        if worker is slowest
        else _without_wait(without_exchange[worker.task], waited_s[worker.task] * worker.steps)
        for worker in facts.workers
    )
    return SlowWorker(
        worker=slowest,
        phase=phase,
        part=_slow_part(facts, slowest, phase),
        step_s=slowest_s,
        others_s=others_s,
        remaining=remaining,
    )


def _work_s(worker: WorkerFacts) -> float:
    """Seconds that a worker works on one step."""
    return worker.phases.step_work / max(1, worker.steps)


def _slowed_exchange_s(facts: Facts, slowest: WorkerFacts) -> float:
    """Seconds of a step by which the CPU limit of the slowest worker lengthens the exchange of all workers.

    In a collective operation, which needs no server, the workers exchange at the same time: each takes as long as the
    slowest one.
    """
    if facts.servers:
        return 0.0
    return throttled_share(facts, slowest) * slowest.phases.exchange / max(1, slowest.steps)


def _with_shorter_exchange(worker: WorkerFacts, less_s: float) -> WorkerFacts:
    """The worker with an exchange that is shorter by these seconds in each step, as far as it takes that long."""
    exchange_s = worker.phases.exchange
    kept = 1 - min(1.0, less_s * worker.steps / exchange_s) if exchange_s else 1.0
    return _with_phases(worker, pull=worker.phases.pull * kept, push=worker.phases.push * kept)


def _uneven_worker(facts: Facts) -> SlowWorker | None:
    most = max(facts.workers, key=lambda worker: worker.steps)
    least = min(facts.workers, key=lambda worker: worker.steps)
    even = mean(worker.steps for worker in facts.workers)
    if not even or most.steps < OVERLOAD_FACTOR * even:
        return None
    reference = _running_step(facts, [most])
    remaining = tuple(_without_excess(facts, worker, worker.phases.step_work, reference) for worker in facts.workers)
    return SlowWorker(
        worker=least,
        phase=_slow_phase(facts, least),
        part=_slow_phase(facts, least),
        step_s=least.phases.step_work / max(1, least.steps),
        others_s=most.phases.step_work / most.steps,
        remaining=remaining,
    )


def _mean_step(workers: list[WorkerFacts]) -> dict[str, float]:
    """Seconds of one step in each phase, as the mean over the workers."""
    return {name: mean(getattr(one.phases, name) / max(1, one.steps) for one in workers) for name in STEP_PHASES}


def _running_step(facts: Facts, workers: list[WorkerFacts]) -> dict[str, float]:
    """Seconds of one step in each phase without waiting for a core, as the mean over the workers."""
    steps = [(1 - core_wait_share(facts, worker), _mean_step([worker])) for worker in workers]
    return {name: mean(running * step[name] for running, step in steps) for name in STEP_PHASES}


def _without_excess(facts: Facts, worker: WorkerFacts, limit_s: float, reference: dict[str, float]) -> WorkerFacts:
    """The worker without the time that it needs beyond the reference, but without at most `limit_s` seconds.

    The time is taken from the phases that take longer than in the reference. What the worker is quicker at counts too.
    """
    running = _running_step(facts, [worker])
    difference = {name: worker.steps * (running[name] - reference[name]) for name in STEP_PHASES}
    excess = {name: max(0.0, seconds) for name, seconds in difference.items()}
    lost_s = min(limit_s, max(0.0, sum(difference.values())))
    part = lost_s / max(sum(excess.values()), 1e-12)
    return _with_phases(worker, **{name: getattr(worker.phases, name) - part * excess[name] for name in STEP_PHASES})


def _without_wait(worker: WorkerFacts, lost_s: float) -> WorkerFacts:
    return _with_phases(worker, wait=max(0.0, worker.phases.wait - lost_s))


def _with_phases(worker: WorkerFacts, **changes: float) -> WorkerFacts:
    phases: Phases = msgspec.structs.replace(worker.phases, **changes)
    return msgspec.structs.replace(worker, phases=phases)


def _is_explained(facts: Facts, phase: str) -> bool:
    """Whether a busy link or server explains that the worker is slow in this phase."""
    link, server = busiest_link(facts), busiest_server(facts)
    load = max(link.utilization if link else 0.0, server.busy if server else 0.0)
    return phase in ("pull", "push", "fused") and load >= SLOWS_EXCHANGE


def _slow_phase(facts: Facts, worker: WorkerFacts) -> str:
    """The phase in which a worker spends the most time per step beyond the mean of the others."""
    others = _mean_step([other for other in facts.workers if other is not worker])
    own = _mean_step([worker])
    return max(STEP_PHASES, key=lambda phase: own[phase] - others[phase])


def _slow_part(facts: Facts, worker: WorkerFacts, phase: str) -> str:
    """The part of a phase in which a worker spends the most time per step beyond the mean of the others."""
    parts, others = worker.detail.get(phase, {}), [other for other in facts.workers if other is not worker]

    def step_s(one: WorkerFacts, part: str) -> float:
        return one.detail.get(phase, {}).get(part, 0.0) / max(1, one.steps)

    return max(parts, key=lambda part: step_s(worker, part) - mean(step_s(o, part) for o in others), default=phase)
