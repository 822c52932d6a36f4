"""Computes the result of a stored run.

The result is computed from the files of the run alone, so it is the same for a run that just ended and for one whose
controller was killed.
"""

import math
from collections import Counter
from typing import Any

import polars as pl

from paceline.analyze.bottleneck.collect_facts import collect_facts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.remedies import configuration_of
from paceline.analyze.hosts import background_cores, host_results
from paceline.analyze.machines import Machines, machines_of
from paceline.analyze.phases import PhaseSums, StalenessCounts, last_steps_of
from paceline.analyze.recovery import recoveries
from paceline.plan.roles import CHIEF
from paceline.spec.experiment import IDENTIFYING
from paceline.spec.fault import not_injected
from paceline.store.events import (
    AssignedEvent,
    EndedEvent,
    FinishedEvent,
    IncidentEvent,
    JoinedEvent,
    LinkEvent,
    LinksEvent,
)
from paceline.store.header import ResumePoint, RunHeader, spec_fields
from paceline.store.result import (
    Exchanged,
    Final,
    HostResult,
    Incident,
    Link,
    PairLink,
    Reached,
    Result,
    RunExchanged,
    Verdict,
    WorkerResult,
)
from paceline.store.run import StoredRun
from paceline.workloads.user_workload import is_user_workload

_SCOPE = {
    "cpu": "the host's tasks",
    "busiest_core": "the cores of the host's machine",
    "memory": "the host's tasks",
    "network": "the host's own interfaces",
    "disk": "the host's tasks",
}
"""What the figures of a host cover if it is a machine of its own."""
_SHARED_CORES = {"busiest_core": "the machine's cores, shared by all hosts"}
_SHARED_NETWORK = {"network": "the machine's, shared by all hosts"}
# `examples` of a result counts the examples trained on; the setting of that name limits the examples of the data set.
# `lr` of a result is the learning rate of an update; the setting of that name is None for that of the workload.
_SHOWN_ELSEWHERE = {*Result.__struct_fields__, "hosts"} - {"transport", "examples", "lr"}
_SETTINGS = [name for name in IDENTIFYING if name not in _SHOWN_ELSEWHERE]
"""The options of a run that its result lists under `settings`, because no other field shows them."""

_END_S = pl.col("t_s") + pl.col("duration_s")
"""The end of a row of the table `steps`."""


def summarize(run: StoredRun) -> Result:
    """All fields that the JSON contract promises, computed from the files of the run."""
    training = _Training(run)
    sums = _StepSums(run)
    workers = _workers(run, sums, training.outcomes)
    hosts = _hosts(run, training)
    machines = machines_of(run)
    background = _background_cores(run, training, machines)
    return Result(
        **_identity(run),
        **_outcome(run, training),
        **_amounts(run, training, workers, sums.recorded.total()),
        workers=workers,
        hosts=hosts,
        links=_pair_links(run),
        verdict=_verdict(run, workers, hosts, training),
        machine_cores=machines.total_cores,
        versions=_versions(run),
        other_cores_mean=round(machines.total(background), 3),
        other_cores_by_host={host: round(cores, 3) for host, cores in background.items()},
    )


def _identity(run: StoredRun) -> dict[str, Any]:
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
        "batch": _batch(header),
        "seed": spec.seed,
        "repeat": spec.repeat,
        "hosts_kind": spec.hosts,
        "settings": {name: value for name, value in spec_fields(spec).items() if name in _SETTINGS},
        "size": header.size,
        "transport": header.transport,
        "data": header.data,
        "started_at": header.started_at,
        "key": header.key,
        "synchronous": header.strategy.synchronous,
        "single_worker": header.strategy.single_worker,
        "one_machine": header.host_kind.shares_one_machine,
    }


def _outcome(run: StoredRun, training: "_Training") -> dict[str, Any]:
    """The fields that say how the run ended and what went wrong in it."""
    header, chief = run.header, training.outcomes.get(CHIEF)
    status, reason = _status(run)
    is_users_code = is_user_workload(header.spec.workload)
    return {
        "status": status,
        "reason": reason,
        "tainted": any(event.get("taints") for event in run.events),
        "final": _final(run, chief),
        "reached": _reached(chief, training.start_s),
        "incidents": [
            Incident(t_s=event.t_s, what=event.what, task=event.task, host=event.host)
            for event in run.all(IncidentEvent)
        ],
        "traceback": _traceback(run) if is_users_code else None,
        "faults": recoveries(
            run.events,
            training.step_ends,
            requested=map(str, not_injected(header.spec.fault, header.resumed.faults if header.resumed else ())),
            task_hosts=header.task_hosts,
            start_s=training.start_s,
        ),
    }


def _amounts(run: StoredRun, training: "_Training", workers: list[WorkerResult], recorded: int) -> dict[str, Any]:
    """The fields that count updates, examples and steps, with their times and rates."""
    header, synchronous = run.header, run.header.strategy.synchronous
    batch = _batch(header)
    updates = _updates(run, training)
    updates_before = header.resumed.update if header.resumed else 0
    steps = sum(worker.steps for worker in workers)
    steps_before = sum(_steps_before(header).values())
    gradients = header.strategy.gradients_per_update(len(workers), header.spec.backup)
    return {
        "examples_per_update": batch * gradients,
        "lr": header.lr,
        "exchanged": _run_exchanged(workers, updates - updates_before),
        "updates": updates,
        "examples": steps * batch,
        "train_s": round(training.seconds, 6),
        "total_s": round(_total_s(run), 6),
        "first_step_s": _first_step_s(run),
        "updates_per_s": round(training.rate(updates - updates_before, synchronous=synchronous), 4),
        "examples_per_s": round(training.rate(steps - steps_before, synchronous=False) * batch, 3),
        "traced_steps": training.traced_steps,
        "unrecorded_steps": _unrecorded_steps(
            header, training, recorded, steps - steps_before if synchronous else updates - updates_before
        ),
    }


def _unrecorded_steps(header: RunHeader, training: "_Training", recorded: int, made: int) -> int:
    """How many of the `made` steps, of which a finished training consists, have no record."""
    # With backup workers, a restarted worker does not know how many of its earlier steps were dropped.
    is_known = header.trains and header.spec.record and not header.spec.backup
    if not is_known or training.outcomes.keys() != header.worker_hosts.keys():
        return 0
    return max(0, made - recorded)


def _batch(header: RunHeader) -> int:
    return header.spec.batch if header.trains else 0


def training_start_s(run: StoredRun) -> float:
    """When the training began, on the run's clock. `train_s` and `reached.at_s` are counted from this time."""
    return _start_s(run, _outcomes(run))


def _outcomes(run: StoredRun) -> dict[str, FinishedEvent]:
    """The event with which each worker finished; workers that did not finish are missing."""
    return {event.task: event for event in run.all(FinishedEvent) if event.task in run.header.worker_hosts}


def _steps_before(header: RunHeader) -> dict[str, int]:
    """The steps that each worker made in the run that this one resumes."""
    start = header.resumed or ResumePoint()
    return {
        task: start.update if header.strategy.synchronous else start.steps.get(task, 0) for task in header.worker_hosts
    }


def _updates(run: StoredRun, training: "_Training") -> int:
    """The last number of updates that a worker saw. Updates that a return to a checkpoint undid do not count."""
    if training.outcomes:
        return max(event.updates for event in training.outcomes.values())
    restored = [event for event in run.events if event["event"] == "restored"]
    resumed = run.header.resumed or ResumePoint()
    from_s, from_update = (restored[-1]["t_s"], restored[-1].get("update", 0)) if restored else (0.0, resumed.update)
    since = _step_rows(run).filter(pl.col("t_s") >= from_s)
    return max(int(from_update), int(run.collect(since.select(pl.col("update").max())).item() or 0))


def _start_s(run: StoredRun, outcomes: dict[str, FinishedEvent]) -> float:
    go = run.first("go")
    starts = [event.started_s for event in outcomes.values() if event.started_s]
    # Restarted workers report the start after their restart, which is later than the start of the training.
    if starts and not run.first("restarting"):
        return float(min(starts))
    if go:
        return float(go["t_s"])
    # The events may be lost although the steps are not, as after a full disk.
    return float(run.collect(run.scan_steps().select(pl.col("t_s").min())).item() or 0.0)


def _step_rows(run: StoredRun) -> pl.LazyFrame:
    """A query of the rows of whole steps."""
    return run.scan_steps().filter(pl.col("kind") == "step")


class _Training:
    """The training of a run: its period on the run's clock, its traced steps and the events of finished workers."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self.outcomes = outcomes = _outcomes(run)
        sums = run.collect(
            _step_rows(run).select(
                end_s=_END_S.max(),
                workers=pl.col("task").n_unique(),
                traced_s=pl.col("duration_s").filter(pl.col("traced")).sum(),
                traced_steps=pl.col("traced").sum(),
            )
        ).row(0, named=True)
        # The evaluation that met a stop rule is part of the training: without it the rule would not be known to be met.
        ends = [end for event in outcomes.values() for end in (event.ended_s, event.reached_s) if end]
        self.start_s = _start_s(run, outcomes)
        if not ends and sums["end_s"] is not None:
            ends = [sums["end_s"]]
        self.seconds: float = max(0.0, max(ends, default=self.start_s) - self.start_s)
        self.end_s = self.start_s + self.seconds
        self._workers = max(1, len(outcomes) or sums["workers"])
        self._traced_s: float = sums["traced_s"]
        self.traced_steps: int = sums["traced_steps"]

    def step_ends(self) -> pl.Series:
        """The ends of all steps on the run's clock."""
        return self._run.collect(_step_rows(self._run).select(_END_S)).to_series()

    def rate(self, count: int, *, synchronous: bool) -> float:
        """`count` per second without traced steps and their time, because tracing makes steps slower."""
        if self.seconds <= 0:
            return 0.0
        # Workers of a synchronous run trace the same steps, so one traced update is one traced step of each worker.
        traced = self.traced_steps / self._workers if synchronous else self.traced_steps
        return max(0.0, count - traced) / max(self.seconds - self._traced_s / self._workers, 1e-9)


def _status(run: StoredRun) -> tuple[Any, str | None]:
    for ended in run.all(EndedEvent):
        return ended.status, ended.reason
    return "aborted", "the controller was killed"


class _StepSums:
    """What is added up over all parts of the table of steps, by worker."""

    def __init__(self, run: StoredRun) -> None:
        last_steps = run.collect(last_steps_of(run.scan_steps()))
        phases = PhaseSums(mixed_phase=run.header.strategy.mixed_phase, last_steps=last_steps)
        staleness = StalenessCounts()
        self.recorded: Counter[str] = Counter()
        """The number of steps that have a record and were not undone. A step with two records counts once."""
        for part in run.step_parts():
            phases.add(part)
            staleness.add(part)
            kept = part.filter((pl.col("kind") == "step") & pl.col("undone").not_())
            self.recorded.update(dict(kept.group_by("task").agg(pl.col("step").n_unique()).iter_rows()))
        self.phases = phases.by_worker()
        self.staleness = staleness.by_worker()


def _workers(run: StoredRun, sums: _StepSums, outcomes: dict[str, FinishedEvent]) -> list[WorkerResult]:
    before = _steps_before(run.header)
    threads = {event.task: event.threads for event in run.all(AssignedEvent)}
    return [
        WorkerResult(
            task=task,
            host=host,
            steps=outcomes[task].steps if task in outcomes else before[task] + sums.recorded[task],
            phases={name: round(seconds, 6) for name, seconds in sums.phases.get(task, {}).items()},
            staleness=sums.staleness.get(task),
            exchanged=_exchanged(outcomes.get(task)),
            dropped=outcomes[task].dropped if task in outcomes else 0,
            fetched_mb=round(outcomes[task].fetched_bytes / 1e6, 6) if task in outcomes else 0.0,
            threads=threads.get(task),
        )
        for task, host in run.header.worker_hosts.items()
    ]


def _exchanged(finished: FinishedEvent | None) -> Exchanged | None:
    if finished is None or finished.sent_bytes is None or finished.received_bytes is None:
        return None
    return Exchanged(sent_mb=round(finished.sent_bytes / 1e6, 6), received_mb=round(finished.received_bytes / 1e6, 6))


def _run_exchanged(workers: list[WorkerResult], updates: int) -> RunExchanged | None:
    known = [worker.exchanged for worker in workers if worker.exchanged]
    if not workers or len(known) < len(workers):
        return None
    sent, received = sum(one.sent_mb for one in known), sum(one.received_mb for one in known)
    return RunExchanged(
        sent_mb=round(sent, 6),
        received_mb=round(received, 6),
        sent_mb_per_update=round(sent / max(1, updates), 6),
        received_mb_per_update=round(received / max(1, updates), 6),
    )


def _hosts(run: StoredRun, training: _Training) -> list[HostResult]:
    tasks: dict[str, list[str]] = {}
    for place in run.header.places:
        tasks.setdefault(place.host, []).append(place.task)
    cores = _SHARED_CORES if run.header.host_kind.shares_one_machine else {}
    scopes = {
        event.host: _SCOPE | cores | (_SHARED_NETWORK if event.network == "machine" else {})
        for event in run.all(JoinedEvent)
    }
    # The limits are listed in the order of the layout; the places begin with the servers.
    hosts = sorted(tasks, key=[*run.header.limits, *tasks].index)
    results = host_results(
        run.samples,
        start_s=training.start_s,
        end_s=training.end_s,
        tasks={host: tasks[host] for host in hosts},
        scopes=scopes,
    )
    for result in results:
        result.link = _link(run, result.host)
    return results


def _link(run: StoredRun, host: str) -> Link | None:
    """The capacity of a host's link; None if it is not known or the host shares its network with other hosts."""
    joined = next((event for event in run.all(JoinedEvent) if event.host == host), None)
    limits = run.header.limits.get(host)
    if joined is None or joined.network != "host":
        return None
    if limits and limits.link_bits_s:
        rate = limits.link_bits_s / 8e6
        return Link(tx_mb_s=rate, rx_mb_s=rate, known_from="by --link")
    measured = next((event for event in run.all(LinkEvent) if event.host == host), None)
    return Link(tx_mb_s=measured.tx_mb_s, rx_mb_s=measured.rx_mb_s, known_from="measured") if measured else None


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


def _verdict(run: StoredRun, workers: list[WorkerResult], hosts: list[HostResult], training: _Training) -> Verdict:
    machines = machines_of(run)
    facts = collect_facts(
        run,
        workers,
        hosts,
        start_s=training.start_s,
        end_s=training.end_s,
        total_s=_total_s(run),
        machines=machines,
        background_cores=_background_cores(run, training, machines),
    )
    return judge(facts, configuration_of(run.header))


def _background_cores(run: StoredRun, training: _Training, machines: Machines) -> dict[str, float]:
    """By host, the cores of its machine that other programs used."""
    return background_cores(run.samples, start_s=training.start_s, end_s=training.end_s, shared=machines.shared)


def _versions(run: StoredRun) -> dict[str, str | None]:
    """Of the controller; Python's version is that of the first host that joined."""
    python = next((event.versions.get("python") for event in run.all(JoinedEvent)), None)
    return {**run.header.versions, "python": python}


def _total_s(run: StoredRun) -> float:
    """When the last event, step or sample of the run was recorded; a killed run may end with any of them."""
    last_step = run.collect(run.scan_steps().select(_END_S.max())).item() or 0.0
    last_event = run.events[-1]["t_s"] if run.events else 0.0
    return max(float(last_step), float(run.samples["t_s"].max() or 0.0), last_event)  # type: ignore[arg-type]


def _first_step_s(run: StoredRun) -> float | None:
    """When the last worker ended its first step, on the run's clock; None if a worker made no step."""
    first_numbers = run.collect(_step_rows(run).group_by("task").agg(first=pl.col("step").min()))
    if not len(first_numbers) or len(first_numbers) < len(run.header.worker_hosts):
        return None
    firsts = _step_rows(run).join(first_numbers.lazy(), on="task").filter(pl.col("step") == pl.col("first"))
    return round(float(run.collect(firsts.select(_END_S.max())).item()), 6)


def _final(run: StoredRun, chief: FinishedEvent | None) -> Final:
    if chief and chief.value is not None:
        return Final(loss=None, accuracy=None, value=chief.value)
    if chief and chief.loss is not None:
        return Final(loss=chief.loss, accuracy=chief.accuracy, auc=chief.auc)
    # A run that was killed has no final evaluation: its last evaluation takes that place.
    last = run.collect(run.scan_steps().filter(pl.col("kind") == "eval")).sort("t_s").tail(1)
    if len(last):
        accuracy = float(last["accuracy"][0])
        return Final(loss=float(last["loss"][0]), accuracy=None if math.isnan(accuracy) else accuracy)
    return Final(loss=None, accuracy=None)


def _traceback(run: StoredRun) -> str | None:
    """The traceback of the error that ended the run: of a task's own error, not of one that follows from it."""
    failed = [event for event in run.events if event["event"] == "failed"]
    cause = next((event for event in failed if event.get("permanent")), failed[0] if failed else {})
    return cause.get("traceback") or None


def _reached(chief: FinishedEvent | None, start_s: float) -> Reached | None:
    if not chief or not chief.reached or chief.reached_s is None:
        return None
    return Reached(rule=chief.reached, at_s=round(chief.reached_s - start_s, 6), at_update=chief.reached_update)
