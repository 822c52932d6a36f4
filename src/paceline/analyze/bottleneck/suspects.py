"""Lists the candidates for the bottleneck of a run, each with its share of the workers' time and its evidence.

Every cause has one function that takes the facts and the time account and yields its suspects. To add a cause, write
such a function and add it to the tuple `CAUSES`; `remedies.py` holds the advice for each cause.

The shares of all suspects add up to 1: they are the parts of one account. Evidence states measured values; where it
states a share of the workers' time, it is a part of that account too.
"""

from collections.abc import Callable, Iterator

import msgspec

from paceline.analyze.bottleneck.cpu_causes import compute, contention, most_threads
from paceline.analyze.bottleneck.exchange_causes import network, server
from paceline.analyze.bottleneck.facts import Facts
from paceline.analyze.bottleneck.framework_causes import garbage_collection, scheduler
from paceline.analyze.bottleneck.slow_worker import find_slow_worker
from paceline.analyze.bottleneck.slow_worker_causes import slow_worker
from paceline.analyze.bottleneck.suspect import UNKNOWN, Suspect, line_evidence
from paceline.analyze.bottleneck.time_account import TimeAccount, time_account
from paceline.present.numbers import first_items, milliseconds, percent

FEW_STEPS = 50
"""With fewer steps, startup may be the bottleneck of a run."""


def suspects(facts: Facts) -> list[Suspect]:
    """All candidates with a share above 0, the largest share first. Their shares add up to 1."""
    slow = find_slow_worker(facts)
    account = time_account(facts, slow.remaining if slow else None)
    found = [suspect for find in CAUSES for suspect in find(facts, account)]
    if slow:
        found.insert(0, slow_worker(facts, slow, account.slow_worker))
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
        threads=most_threads(facts),
        reason="messages" if account.messages > account.framework / 2 else "",
    )


def _barrier(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    last = ", ".join(f"{task} {percent(share)}" for task, share in facts.last_at_barrier.items())
    waits = first_items(
        [f"{worker.task} {milliseconds(worker.phases.wait / max(1, worker.steps))}" for worker in facts.workers]
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


def _phase_suspect(facts: Facts, cause: str, phase: str, share: float) -> Suspect:
    """A cause that is one phase, located at the worker that spends the most time in this phase."""
    worker = max(facts.workers, key=lambda worker: float(getattr(worker.phases, phase)))
    phase_s = getattr(worker.phases, phase) / max(1, worker.steps)
    step_s = worker.phases.total / max(1, worker.steps)
    return Suspect(
        cause=cause,
        where=f"{worker.task} on {worker.host}",
        share=share,
        evidence=(
            f"{cause} takes {milliseconds(phase_s)} of the {milliseconds(step_s)} per step on {worker.task}",
            *line_evidence(worker, phase),
        ),
    )


def _unknown(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    yield Suspect(
        cause=UNKNOWN,
        where="",
        share=account.unknown,
        evidence=("no step was traced, so the phases of the framework's calls are not known",),
    )


CAUSES: tuple[Callable[[Facts, TimeAccount], Iterator[Suspect]], ...] = (
    network,
    server,
    compute,
    contention,
    scheduler,
    garbage_collection,
    _overhead,
    _barrier,
    _input,
    _evaluation,
    _checkpoint,
    _unknown,
)
"""One function per cause. Of two suspects with the same share, the one whose function comes first is ranked first."""
