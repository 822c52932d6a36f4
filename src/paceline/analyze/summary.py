"""Computes the result of a stored run.

The result is computed from the files of the run alone, so it is the same for a run that just ended and for one whose
controller was killed.
"""

import math
from typing import Any

import msgspec
import polars as pl

from paceline.analyze.bottleneck.collect_facts import collect_facts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.over_time import judge_over_time
from paceline.analyze.bottleneck.remedies import configuration_of
from paceline.analyze.hosts import background_cores
from paceline.analyze.machines import Machines, machines_of
from paceline.analyze.memory_growth import memory_growth
from paceline.analyze.recovery import recoveries
from paceline.analyze.run_hosts import hosts_between
from paceline.analyze.training import Training, first_step_s, total_s, updates_of
from paceline.analyze.utilisation import flops_utilisation, tokens_per_s
from paceline.analyze.workers import StepSums, run_exchanged, worker_results
from paceline.plan.place import time_limit_s
from paceline.plan.roles import CHIEF
from paceline.spec.experiment import IDENTIFYING
from paceline.spec.fault import not_injected
from paceline.store.events import (
    EndedEvent,
    FinishedEvent,
    IncidentEvent,
    JoinedEvent,
    LinksEvent,
)
from paceline.store.header import RunHeader, spec_fields
from paceline.store.result import Final, HostResult, Incident, PairLink, Reached, Result, WorkerResult
from paceline.store.run import StoredRun
from paceline.store.verdict import Verdict
from paceline.workloads.user_workload import is_user_workload

# `examples` of a result counts the examples trained on; the setting of that name limits the examples of the data set.
# `lr` and `optimizer` of a result are those of an update; the settings of that name are None for the workload's.
_SHOWN_ELSEWHERE = {*Result.__struct_fields__, "hosts"} - {"transport", "examples", "lr", "optimizer"}
_SETTINGS = [name for name in IDENTIFYING if name not in _SHOWN_ELSEWHERE]
"""The options of a run that its result lists under `settings`, because no other field shows them."""


def summarize(run: StoredRun) -> Result:
    """All fields that the JSON contract promises, computed from the files of the run."""
    training = Training(run)
    sums = StepSums(run)
    workers = worker_results(run, sums, training.outcomes)
    hosts = hosts_between(run, training.start_s, training.end_s)
    machines = machines_of(run)
    background = _background_cores(run, training, machines)
    amounts = _amounts(run, training, workers, sums)
    examples_per_s = amounts["examples_per_s"]
    return Result(
        **_identity(run, sums.batch),
        **_outcome(run, training),
        **amounts,
        tokens_per_s=tokens_per_s(run.header, examples_per_s),
        model_flops_utilisation=flops_utilisation(run.header, training, examples_per_s, machines.total_cores),
        workers=workers,
        hosts=hosts,
        links=_pair_links(run),
        verdict=_verdict(run, workers, hosts, training),
        machine_cores=machines.total_cores,
        versions=_versions(run),
        other_cores_mean=round(machines.total(background), 3),
        other_cores_by_host={host: round(cores, 3) for host, cores in background.items()},
        memory_growth=memory_growth(run.samples, start_s=training.start_s, end_s=training.end_s),
        not_observed=list(dict.fromkeys(note for event in training.outcomes.values() for note in event.notes)),
    )


def _identity(run: StoredRun, batch: int) -> dict[str, Any]:
    """The fields that say which run it is and how it was configured."""
    header = run.header
    spec = header.spec
    return {
        "run": run.paths.id,
        "dir": str(run.paths.directory),
        "workload": spec.workload,
        "engine": spec.engine,
        "strategy": spec.strategy,
        "layout": header.layout,
        "batch": batch,
        "seed": spec.seed,
        "repeat": spec.repeat,
        "hosts_kind": spec.hosts,
        "settings": {name: value for name, value in spec_fields(spec).items() if name in _SETTINGS},
        "size": header.size,
        "transport": header.transport,
        "data": header.data,
        "started_at": header.started_at,
        "tags": tuple(spec.tag),
        "key": header.key,
        "synchronous": header.strategy.synchronous,
        "single_worker": header.strategy.single_worker,
        "one_machine": header.host_kind.shares_one_machine,
    }


def _outcome(run: StoredRun, training: Training) -> dict[str, Any]:
    """The fields that say how the run ended and what went wrong in it."""
    header, chief = run.header, training.outcomes.get(CHIEF)
    status, reason, refused = _status(run)
    is_users_code = header.spec.is_script or is_user_workload(header.spec.workload)
    return {
        "status": status,
        "reason": reason,
        "refused": refused,
        "tainted": any(event.get("taints") for event in run.events),
        "final": _final(run, chief),
        "details": chief.details if chief else {},
        "not_measured": list(chief.not_measured) if chief else [],
        "reached": _reached(chief, training.start_s),
        "incidents": [
            Incident(
                t_s=event.t_s,
                what=event.what,
                task=event.task,
                host=event.host,
                at_s=round(event.t_s - training.start_s, 3) if 0 < training.start_s <= event.t_s else None,
            )
            for event in run.all(IncidentEvent)
        ],
        "traceback": _traceback(run) if is_users_code and status == "failed" else None,
        "faults": recoveries(
            run.events,
            training.step_ends,
            requested=map(str, not_injected(header.spec.fault, header.resumed.faults if header.resumed else ())),
            task_hosts=header.task_hosts,
            start_s=training.start_s,
        ),
    }


def _amounts(run: StoredRun, training: Training, workers: list[WorkerResult], sums: StepSums) -> dict[str, Any]:
    """The fields that count updates, examples and steps, with their times and rates."""
    header, synchronous = run.header, run.header.strategy.synchronous
    batch, recorded = sums.batch, sums.recorded.total()
    updates = updates_of(run, training)
    updates_before = header.resumed.update if header.resumed else 0
    steps = sum(worker.steps for worker in workers)
    own_steps = sum(worker.own_steps for worker in workers)
    gradients = header.strategy.gradients_per_update(len(workers), header.spec.backup)
    counted = _counted_examples(header, training, sums)
    examples = steps * batch if counted is None else counted
    return {
        "examples_per_update": (
            batch * gradients if counted is None or header.spec.is_script else examples // max(1, updates)
        ),
        "time_limit_s": time_limit_s(header.spec),
        "lr": header.lr,
        "optimizer": header.optimizer,
        "exchanged": run_exchanged(workers, updates - updates_before, own_steps, batch),
        "updates": updates,
        "updates_before": updates_before,
        "examples": examples,
        "train_s": round(training.seconds, 6),
        "total_s": round(total_s(run), 6),
        "first_step_s": first_step_s(run),
        "updates_per_s": round(training.rate(updates - updates_before, synchronous=synchronous), 4),
        "examples_per_s": round(
            training.rate(own_steps, synchronous=False) * batch
            if counted is None
            else (counted - _examples_before(header, workers, batch)) / max(training.seconds, 1e-9),
            3,
        ),
        "traced_steps": training.traced_steps,
        "unrecorded_steps": _unrecorded_steps(
            header, training, recorded, own_steps if synchronous else updates - updates_before
        ),
    }


def _counted_examples(header: RunHeader, training: Training, sums: StepSums) -> int | None:
    """The examples that tasks counted, because they are not one batch per step; None if they are."""
    if header.spec.is_script:
        return sums.examples
    events = training.outcomes.values()
    if all(event.examples is None for event in events):
        return None
    return sum(event.steps * sums.batch if event.examples is None else event.examples for event in events)


def _examples_before(header: RunHeader, workers: list[WorkerResult], batch: int) -> int:
    """Of a resumed run, the counted examples that belong to the run that it resumes."""
    # The steps of a user's script are counted from their records, which are those of this run.
    return 0 if header.spec.is_script else batch * sum(worker.steps_before for worker in workers)


def _unrecorded_steps(header: RunHeader, training: Training, recorded: int, made: int) -> int:
    """How many of the `made` steps, of which a finished training consists, have no record."""
    # With backup workers, a restarted worker does not know how many of its earlier steps were dropped.
    is_known = header.trains and header.spec.record and not header.spec.backup
    if not is_known or training.outcomes.keys() != header.worker_hosts.keys():
        return 0
    return max(0, made - recorded)


def _status(run: StoredRun) -> tuple[Any, str | None, bool]:
    """Status, reason, and whether the user's workload was refused before training."""
    for ended in run.all(EndedEvent):
        return ended.status, ended.reason, ended.refused
    return "aborted", "the controller was killed", False


def _pair_links(run: StoredRun) -> list[PairLink]:
    """The measured links between hosts."""

    def milliseconds(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds * 1e3, 4)

    return [
        PairLink(
            sender=link.sender,
            receiver=link.receiver,
            mb_s=link.mb_s,
            rtt_ms=milliseconds(link.rtt_s),
            rtt_min_ms=milliseconds(link.rtt_min_s),
        )
        for event in run.all(LinksEvent)
        for link in event.pairs
    ]


def _verdict(run: StoredRun, workers: list[WorkerResult], hosts: list[HostResult], training: Training) -> Verdict:
    machines = machines_of(run)
    facts = collect_facts(
        run,
        workers,
        hosts,
        start_s=training.start_s,
        end_s=training.end_s,
        total_s=total_s(run),
        machines=machines,
        background_cores=_background_cores(run, training, machines),
    )
    configuration = configuration_of(run.header, run.paths.directory.parent)
    verdict = judge_over_time(run, judge(facts, configuration), training.start_s, training.end_s)
    # What a failed run needs is said by its reason; only one that was too slow for its time limit can be made faster.
    if _status(run)[0] == "failed" and not _used_up_time_limit(run, training):
        return msgspec.structs.replace(verdict, remedy=[])
    return verdict


def _used_up_time_limit(run: StoredRun, training: Training) -> bool:
    limit_s = time_limit_s(run.header.spec)
    return limit_s is not None and total_s(run) - training.start_s >= limit_s


def _background_cores(run: StoredRun, training: Training, machines: Machines) -> dict[str, float]:
    """By host, the cores of its machine that other programs used."""
    return background_cores(run.samples, start_s=training.start_s, end_s=training.end_s, shared=machines.shared)


def _versions(run: StoredRun) -> dict[str, str | None]:
    """Of the controller; Python's version is that of the first host that joined."""
    python = next((event.versions.get("python") for event in run.all(JoinedEvent)), None)
    frameworks = {name: version for event in run.all(FinishedEvent) for name, version in event.versions.items()}
    return {**run.header.versions, **frameworks, "python": python}


def _final(run: StoredRun, chief: FinishedEvent | None) -> Final:
    if chief and chief.value is not None:
        return Final(loss=None, accuracy=None, value=chief.value)
    if chief and (chief.loss is not None or chief.accuracy is not None or chief.metrics):
        return Final(loss=chief.loss, accuracy=chief.accuracy, auc=chief.auc, metrics=chief.metrics)
    # A run that was killed has no final evaluation: its last evaluation takes that place.
    # The evaluations of a user's script have a loss only if the script reports one.
    has_loss = pl.col("loss").is_not_nan() if run.header.spec.is_script else pl.lit(True)
    evaluations = run.scan_steps().filter((pl.col("kind") == "eval") & (pl.col("task") == CHIEF) & has_loss)
    last = run.collect(evaluations).sort("t_s").tail(1)
    if len(last):
        loss, accuracy = (float(last[column][0]) for column in ("loss", "accuracy"))
        is_evaluated_by_user = math.isnan(loss) and not math.isnan(accuracy)
        return Final(loss=None if is_evaluated_by_user else loss, accuracy=None if math.isnan(accuracy) else accuracy)
    return Final(loss=None, accuracy=None)


def _traceback(run: StoredRun) -> str | None:
    """The traceback of the error that ended the run: of a task's own error, not of one that follows from it."""
    restarts = [number for number, event in enumerate(run.events) if event["event"] == "restarting"]
    # The run recovered from what failed before.
    since_restart = run.events[restarts[-1] + 1 if restarts else 0 :]
    failed = [event for event in since_restart if event["event"] == "failed"]
    cause = next((event for event in failed if event.get("permanent")), failed[0] if failed else {})
    return cause.get("traceback") or None


def _reached(chief: FinishedEvent | None, start_s: float) -> Reached | None:
    if not chief or not chief.reached or chief.reached_s is None:
        return None
    return Reached(rule=chief.reached, at_s=round(chief.reached_s - start_s, 6), at_update=chief.reached_update)
