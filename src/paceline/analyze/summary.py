"""Stored run -> result. The same way for a run that just ended and one whose controller was killed."""

import math
from typing import Any

import polars as pl

from paceline.analyze.bottleneck.collect_facts import collect_facts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.remedies import asked_of
from paceline.analyze.hosts import host_results, other_cores
from paceline.analyze.machines import Machines, machines_of
from paceline.analyze.phases import phases_by_worker, staleness_by_worker
from paceline.analyze.recovery import recoveries
from paceline.plan.roles import CHIEF
from paceline.spec.experiment import RunSpec
from paceline.store.events import EndedEvent, FinishedEvent, IncidentEvent, JoinedEvent, LinkEvent
from paceline.store.header import ResumePoint, RunHeader, spec_fields
from paceline.store.result import Final, HostResult, Incident, Link, Reached, Result, Verdict, WorkerResult
from paceline.store.run import StoredRun
from paceline.workloads.user_workload import is_user_workload

_MACHINE_SCOPE = {
    "cpu": "the host's tasks",
    "busiest_core": "the machine's cores, shared by all hosts",
    "memory": "the host's tasks",
    "network": "the machine's, shared by all hosts",
    "disk": "the host's tasks",
}
_HOST_SCOPE = {**_MACHINE_SCOPE, "network": "the host's own interfaces"}


def summarize(run: StoredRun) -> Result:
    """Everything the JSON contract promises, from what is on disk."""
    header = run.header
    spec, synchronous = header.spec, header.strategy.synchronous
    outcomes = _outcomes(run)
    steps = run.steps.filter(pl.col("kind") == "step")
    training = _Training(run, outcomes, steps)
    before = _before(header)
    workers = _workers(run, outcomes, before)
    machines = machines_of(run)
    hosts = _hosts(run, training)
    others = _other_cores(run, training, machines)
    chief = outcomes.get(CHIEF)
    status, reason = _status(run)
    made = sum(worker.steps for worker in workers)
    batch = spec.batch if header.trains else 0
    updates = _updates(run, outcomes, steps)
    updates_before = header.resumed.update if header.resumed else 0
    return Result(
        run=run.paths.id,
        workload=spec.workload,
        engine=spec.engine,
        strategy=spec.strategy,
        layout=header.layout,
        batch=batch,
        seed=spec.seed,
        repeat=spec.repeat,
        status=status,
        reason=reason,
        tainted=any(event.get("taints") for event in run.events),
        updates=updates,
        examples=made * batch,
        train_s=round(training.seconds, 6),
        total_s=round(_total(run), 6),
        first_step_s=_first_step(steps, len(header.worker_hosts)),
        updates_per_s=round(training.pace(updates - updates_before, synchronous=synchronous), 4),
        examples_per_s=round(training.pace(made - sum(before.values()), synchronous=False) * batch, 3),
        final=_final(run.steps, chief),
        reached=_reached(chief, training.start_s),
        workers=workers,
        hosts=hosts,
        verdict=_verdict(run, workers, hosts, training),
        incidents=[
            Incident(t_s=event.t_s, what=event.what, task=event.task, host=event.host)
            for event in run.all(IncidentEvent)
        ],
        dir=str(run.paths.directory),
        hosts_kind=spec.hosts,
        settings={name: value for name, value in spec_fields(spec).items() if name in _SETTINGS},
        size=header.size,
        transport=header.transport,
        data=header.data,
        started_at=header.started_at,
        key=header.key,
        synchronous=synchronous,
        single_worker=header.strategy.single_worker,
        one_machine=header.host_kind.shares_one_machine,
        other_cores_mean=round(machines.total(others), 3),
        other_cores_by_host={host: round(cores, 3) for host, cores in others.items()},
        traceback=(run.first("failed") or {}).get("traceback") if is_user_workload(spec.workload) else None,
        traced_steps=len(steps.filter(pl.col("traced"))),
        faults=recoveries(
            run.events,
            steps,
            requested=map(str, spec.fault),
            task_hosts=header.task_hosts,
            start_s=training.start_s,
        ),
    )


# `examples` of a result is how many were trained on; how many there were to choose from is a setting.
_SHOWN_ELSEWHERE = {*Result.__struct_fields__, "hosts"} - {"transport", "examples"}
_SETTINGS = [name for name in RunSpec.__struct_fields__ if name not in _SHOWN_ELSEWHERE]


def training_start_s(run: StoredRun) -> float:
    """When the training began, on the run's clock: what `train_s` and `reached.at_s` are counted from."""
    return _start_s(run, _outcomes(run))


def _outcomes(run: StoredRun) -> dict[str, FinishedEvent]:
    """What each worker said at its end."""
    return {event.task: event for event in run.all(FinishedEvent) if event.task in run.header.worker_hosts}


def _before(header: RunHeader) -> dict[str, int]:
    """The steps of each worker that were made by the run that this one resumes."""
    start = header.resumed or ResumePoint()
    return {
        task: start.update if header.strategy.synchronous else start.steps.get(task, 0) for task in header.worker_hosts
    }


def _updates(run: StoredRun, outcomes: dict[str, FinishedEvent], steps: pl.DataFrame) -> int:
    """The last count of updates that a worker saw. What was lost in going back to a checkpoint does not count."""
    if outcomes:
        return max(event.updates for event in outcomes.values())
    restored = [event for event in run.events if event["event"] == "restored"]
    resumed = run.header.resumed or ResumePoint()
    from_s, from_update = (restored[-1]["t_s"], restored[-1].get("update", 0)) if restored else (0.0, resumed.update)
    since = steps.filter(pl.col("t_s") >= from_s)
    return max(int(from_update), int(since["update"].max() or 0))  # type: ignore[arg-type]


def _start_s(run: StoredRun, outcomes: dict[str, FinishedEvent]) -> float:
    go = run.first("go")
    starts = [event.started_s for event in outcomes.values() if event.started_s]
    # Those that came back began later than the training did.
    if starts and not run.first("restarting"):
        return float(min(starts))
    if go:
        return float(go["t_s"])
    # Events may be lost where steps are not.
    return float(run.steps["t_s"].min() or 0.0) if len(run.steps) else 0.0  # type: ignore[arg-type]


class _Training:
    """When the training was, and how much of it was spent on traced steps, which do not count as pace."""

    def __init__(self, run: StoredRun, outcomes: dict[str, FinishedEvent], steps: pl.DataFrame) -> None:
        # The evaluation that ended the run is part of it: without it nobody would know that the rule holds.
        ends = [end for event in outcomes.values() for end in (event.ended_s, event.reached_s) if end]
        self.start_s = _start_s(run, outcomes)
        if not ends and len(steps):
            ends = [float((steps["t_s"] + steps["duration_s"]).max() or 0.0)]  # type: ignore[arg-type]
        self.seconds: float = max(0.0, max(ends, default=self.start_s) - self.start_s)
        self.end_s = self.start_s + self.seconds
        self._workers = max(1, len(outcomes) or steps["task"].n_unique())
        traced = steps.filter(pl.col("traced"))
        self._traced_s = float(traced["duration_s"].sum())
        self._traced_steps = len(traced)

    def pace(self, count: int, *, synchronous: bool) -> float:
        """`count` per second, traced steps and their time left out."""
        if self.seconds <= 0:
            return 0.0
        # Workers of a synchronous run trace the same steps, so a traced update is a traced step of each.
        traced = self._traced_steps / self._workers if synchronous else self._traced_steps
        return max(0.0, count - traced) / max(self.seconds - self._traced_s / self._workers, 1e-9)


def _status(run: StoredRun) -> tuple[Any, str | None]:
    for ended in run.all(EndedEvent):
        return ended.status, ended.reason
    return "aborted", "the controller was killed"


def _workers(run: StoredRun, outcomes: dict[str, FinishedEvent], before: dict[str, int]) -> list[WorkerResult]:
    steps = run.steps
    phases = phases_by_worker(steps, mixed_phase=run.header.strategy.mixed_phase)
    staleness = staleness_by_worker(steps)
    # A step made again after a restart is one step.
    made = steps.filter(pl.col("kind") == "step").group_by("task").agg(pl.col("step").n_unique())
    counts = dict(made.iter_rows())
    return [
        WorkerResult(
            task=task,
            host=host,
            steps=outcomes[task].steps if task in outcomes else before[task] + counts.get(task, 0),
            phases={name: round(seconds, 6) for name, seconds in phases.get(task, {}).items()},
            staleness=staleness.get(task),
            dropped=outcomes[task].dropped if task in outcomes else 0,
            fetched_mb=round(outcomes[task].fetched_bytes / 1e6, 6) if task in outcomes else 0.0,
        )
        for task, host in run.header.worker_hosts.items()
    ]


def _hosts(run: StoredRun, training: _Training) -> list[HostResult]:
    tasks: dict[str, list[str]] = {}
    for place in run.header.places:
        tasks.setdefault(place.host, []).append(place.task)
    scopes = {
        event.host: _MACHINE_SCOPE if event.network == "machine" else _HOST_SCOPE for event in run.all(JoinedEvent)
    }
    # The limits are listed in the order of the layout; the places begin with the servers.
    hosts = sorted(tasks, key=[*run.header.limits, *tasks].index)
    found = host_results(
        run.samples,
        start_s=training.start_s,
        end_s=training.end_s,
        tasks={host: tasks[host] for host in hosts},
        scopes=scopes,
    )
    for host in found:
        host.link = _link(run, host.host)
    return found


def _link(run: StoredRun, host: str) -> Link | None:
    """What the link of a host can carry; None if the host shares a network with others, or it is not known."""
    joined = next((event for event in run.all(JoinedEvent) if event.host == host), None)
    limits = run.header.limits.get(host)
    if joined is None or joined.network != "host":
        return None
    if limits and limits.link_bits_s:
        rate = limits.link_bits_s / 8e6
        return Link(tx_mb_s=rate, rx_mb_s=rate, known_from="by --link")
    measured = next((event for event in run.all(LinkEvent) if event.host == host), None)
    return Link(tx_mb_s=measured.tx_mb_s, rx_mb_s=measured.rx_mb_s, known_from="measured") if measured else None


def _verdict(run: StoredRun, workers: list[WorkerResult], hosts: list[HostResult], training: _Training) -> Verdict:
    machines = machines_of(run)
    facts = collect_facts(
        run,
        workers,
        hosts,
        start_s=training.start_s,
        end_s=training.end_s,
        total_s=_total(run),
        machines=machines,
        other_cores=_other_cores(run, training, machines),
    )
    return judge(facts, asked_of(run.header))


def _other_cores(run: StoredRun, training: _Training, machines: Machines) -> dict[str, float]:
    """By host, the cores of its machine that other programs used."""
    return other_cores(run.samples, start_s=training.start_s, end_s=training.end_s, shared=machines.shared)


def _total(run: StoredRun) -> float:
    """Until the last thing known of the run: after a kill that may be a step or a sample."""
    last_step = (run.steps["t_s"] + run.steps["duration_s"]).max() or 0.0
    last_event = run.events[-1]["t_s"] if run.events else 0.0
    return max(float(last_step), float(run.samples["t_s"].max() or 0.0), last_event)  # type: ignore[arg-type]


def _first_step(steps: pl.DataFrame, workers: int) -> float | None:
    firsts = steps.filter(pl.col("step") == pl.col("step").min().over("task"))
    if not len(firsts) or firsts["task"].n_unique() < workers:
        return None
    return round(float((firsts["t_s"] + firsts["duration_s"]).max()), 6)  # type: ignore[arg-type]


def _final(steps: pl.DataFrame, chief: FinishedEvent | None) -> Final:
    if chief and chief.value is not None:
        return Final(loss=None, accuracy=None, value=chief.value)
    if chief and chief.loss is not None:
        return Final(loss=chief.loss, accuracy=chief.accuracy, auc=chief.auc)
    # A run that was cut short: its last evaluation is the best there is.
    last = steps.filter(pl.col("kind") == "eval").sort("t_s").tail(1)
    if len(last):
        accuracy = float(last["accuracy"][0])
        return Final(loss=float(last["loss"][0]), accuracy=None if math.isnan(accuracy) else accuracy)
    return Final(loss=None, accuracy=None)


def _reached(chief: FinishedEvent | None, start_s: float) -> Reached | None:
    if not chief or not chief.reached or chief.reached_s is None:
        return None
    return Reached(rule=chief.reached, at_s=round(chief.reached_s - start_s, 6), at_update=chief.reached_update)
