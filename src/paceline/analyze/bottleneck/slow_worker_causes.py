"""Bottleneck causes that concern one slow worker: a straggler, or workers that make uneven shares of the updates."""

from paceline.analyze.bottleneck.cpu_causes import cpu_limit_evidence
from paceline.analyze.bottleneck.facts import Facts, WorkerFacts
from paceline.analyze.bottleneck.slow_worker import SlowWorker
from paceline.analyze.bottleneck.suspect import Suspect, line_evidence
from paceline.present.numbers import count, milliseconds, percent

_NOTICEABLE_WAIT = 0.2
"""A worker that waits for a CPU core for this share of the time is slow because of that."""


def slow_worker(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    return _straggler(facts, slow, share) if facts.synchronous else _uneven_workers(facts, slow, share)


def _straggler(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    worker, last = slow.worker, facts.last_at_barrier.get(slow.worker.task)
    reason, explanation = _why_slow(facts, worker, slow.phase, slow.part)
    return Suspect(
        cause="straggler",
        where=f"{worker.task} on {worker.host}",
        share=share,
        evidence=(
            f"a step takes {milliseconds(slow.step_s)} on {worker.task}, {milliseconds(slow.others_s)} on the others "
            f"({slow.step_s / max(slow.others_s, 1e-9):.1f}×)",
            *([f"{worker.task} was the last worker in {percent(last)} of the steps"] if last is not None else []),
            explanation,
            *line_evidence(worker, slow.part),
        ),
        reason=reason,
    )


def _uneven_workers(facts: Facts, slow: SlowWorker, share: float) -> Suspect:
    most = max(facts.workers, key=lambda worker: worker.steps)
    least, steps = slow.worker, sum(worker.steps for worker in facts.workers)
    reason, explanation = _why_slow(facts, least, slow.phase, slow.part)
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


def _why_slow(facts: Facts, worker: WorkerFacts, phase: str, part: str) -> tuple[str, str]:
    """The reason why a worker is slower than the others, and a sentence that explains it.

    `phase` is where it loses the most time, and `part` the part of that phase if it has several.
    """
    if facts.host(worker.host).cpu_limit_reached:
        return "cpu_limit", cpu_limit_evidence(facts, worker.host)[0]
    waiting = worker.use.waiting_for_core
    if waiting >= _NOTICEABLE_WAIT:
        threads = worker.use.run_wait
        return "contention", f"on average {threads:.2f} threads of {worker.task} waited for a CPU core"
    if phase in ("pull", "push"):
        return "exchange", f"{worker.task} loses most time in {part}: its connection to the others is slower"
    fewest = min(other.threads for other in facts.workers if other is not worker)
    if phase == "compute" and worker.threads < fewest:
        own = count(worker.threads, "thread")
        return "fewer_threads", f"{worker.task} computes with {own}, every other worker with {fewest} or more"
    return phase, f"{worker.task} loses most time in {part}"
