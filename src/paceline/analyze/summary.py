"""Stored run -> result. The same way for a run that just ended and one whose controller was killed."""

import math
from typing import Any

import polars as pl

from paceline.analyze.bottleneck.collect_facts import collect_facts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.remedies import Asked
from paceline.analyze.hosts import host_results, other_cores
from paceline.analyze.phases import phases_by_worker, staleness_by_worker
from paceline.analyze.recovery import recoveries
from paceline.spec.experiment import RunSpec
from paceline.store.events import Event
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
    created = run.first("created") or {}
    spec: dict[str, Any] = created.get("spec", {})
    worker_tasks = {p["task"]: p["host"] for p in created.get("places", []) if p["role"] == "w"}
    outcomes = _outcomes(run)
    steps = run.steps.filter(pl.col("kind") == "step")
    training = _Training(run, outcomes, steps)
    before = _before(created, worker_tasks)
    workers = _workers(run.steps, worker_tasks, outcomes, spec, before)
    hosts = _hosts(run, created, training)
    chief: Event = outcomes.get("w0", {})
    status, reason = _status(run)
    made = sum(worker.steps for worker in workers)
    trains = created.get("trains", True)
    batch = spec.get("batch", 0) if trains else 0
    synchronous = bool(created.get("synchronous"))
    updates = _updates(run, created, outcomes, steps)
    updates_before = (created.get("resumed") or {}).get("update", 0)
    return Result(
        run=run.paths.id,
        workload=spec.get("workload", "?"),
        engine=spec.get("engine", "?"),
        strategy=spec.get("strategy", "?"),
        layout=created.get("layout", "?"),
        batch=batch,
        seed=spec.get("seed", 0),
        repeat=spec.get("repeat", 1),
        status=status,
        reason=reason,
        tainted=any(event.get("taints") for event in run.events),
        updates=updates,
        examples=made * batch,
        train_s=round(training.seconds, 6),
        total_s=round(_total(run), 6),
        first_step_s=_first_step(steps, len(worker_tasks)),
        updates_per_s=round(training.pace(updates - updates_before, synchronous=synchronous), 4),
        examples_per_s=round(training.pace(made - sum(before.values()), synchronous=False) * batch, 3),
        final=_final(run.steps, chief),
        reached=_reached(chief, training.start_s),
        workers=workers,
        hosts=hosts,
        verdict=_verdict(run, created, workers, hosts, training),
        incidents=[
            Incident(t_s=event["t_s"], what=event["what"], task=event.get("task"), host=event.get("host"))
            for event in run.all("incident")
        ],
        dir=str(run.paths.directory),
        hosts_kind=spec.get("hosts", "?"),
        settings={key: spec.get(key) for key in _SETTINGS},
        size=created.get("size", ""),
        transport=created.get("transport"),
        data=created.get("data", "?"),
        started_at=created.get("started_at", "?"),
        key=created.get("key", ""),
        other_cores_mean=round(_other_cores(run, training), 3),
        traceback=(run.first("failed") or {}).get("traceback") if is_user_workload(spec.get("workload", "")) else None,
        traced_steps=len(steps.filter(pl.col("traced"))),
        faults=recoveries(
            run.events,
            steps,
            requested=spec.get("fault", []),
            task_hosts={place["task"]: place["host"] for place in created.get("places", [])},
            start_s=training.start_s,
        ),
    )


# `examples` of a result is how many were trained on; how many there were to choose from is a setting.
_SHOWN_ELSEWHERE = {*Result.__struct_fields__, "hosts"} - {"transport", "examples"}
_SETTINGS = [name for name in RunSpec.__struct_fields__ if name not in _SHOWN_ELSEWHERE]


def training_start_s(run: StoredRun) -> float:
    """When the training began, on the run's clock: what `train_s` and `reached.at_s` are counted from."""
    return _start_s(run, _outcomes(run))


def _outcomes(run: StoredRun) -> dict[str, Event]:
    """What each worker said at its end."""
    workers = {place["task"] for place in (run.first("created") or {}).get("places", []) if place["role"] == "w"}
    return {event["task"]: event for event in run.all("finished") if event["task"] in workers}


def _before(created: Event, workers: dict[str, str]) -> dict[str, int]:
    """The steps of each worker that another run had made, which this one continues."""
    resumed = created.get("resumed")
    if not resumed:
        return dict.fromkeys(workers, 0)
    return {
        task: resumed["update"] if created.get("synchronous") else resumed["steps"].get(task, 0) for task in workers
    }


def _updates(run: StoredRun, created: Event, outcomes: dict[str, Event], steps: pl.DataFrame) -> int:
    """The last count of updates that a worker saw. What was lost in going back to a checkpoint does not count."""
    if outcomes:
        return max(int(event["updates"]) for event in outcomes.values())
    start = run.all("restored")[-1] if run.first("restored") else (created.get("resumed") or {})
    since = steps.filter(pl.col("t_s") >= start.get("t_s", 0.0))
    return max(int(start.get("update", 0)), int(since["update"].max() or 0))  # type: ignore[arg-type]


def _start_s(run: StoredRun, outcomes: dict[str, Event]) -> float:
    go = run.first("go")
    starts = [event["started_s"] for event in outcomes.values() if event["started_s"]]
    # Those that came back began later than the training did.
    if starts and not run.first("restarting"):
        return float(min(starts))
    if go:
        return float(go["t_s"])
    # Events may be lost where steps are not.
    return float(run.steps["t_s"].min() or 0.0) if len(run.steps) else 0.0  # type: ignore[arg-type]


class _Training:
    """When the training was, and how much of it was spent on traced steps, which do not count as pace."""

    def __init__(self, run: StoredRun, outcomes: dict[str, Event], steps: pl.DataFrame) -> None:
        # The evaluation that ended the run is part of it: without it nobody would know that the rule holds.
        ends = [event[end] for event in outcomes.values() for end in ("ended_s", "reached_s") if event[end]]
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
    ended = run.first("ended")
    if ended:
        return ended["status"], ended["reason"]
    return "aborted", "the controller was killed"


def _workers(
    steps: pl.DataFrame,
    homes: dict[str, str],
    outcomes: dict[str, Event],
    spec: dict[str, Any],
    before: dict[str, int],
) -> list[WorkerResult]:
    phases = phases_by_worker(steps, split_exchange=spec.get("strategy") == "allreduce")
    staleness = staleness_by_worker(steps)
    # A step made again after a restart is one step.
    made = steps.filter(pl.col("kind") == "step").group_by("task").agg(pl.col("step").n_unique())
    counts = dict(made.iter_rows())
    return [
        WorkerResult(
            task=task,
            host=host,
            steps=outcomes[task]["steps"] if task in outcomes else before[task] + counts.get(task, 0),
            phases={name: round(seconds, 6) for name, seconds in phases.get(task, {}).items()},
            staleness=staleness.get(task),
            dropped=outcomes[task].get("dropped", 0) if task in outcomes else 0,
            fetched_mb=round(outcomes[task].get("fetched_bytes", 0) / 1e6, 6) if task in outcomes else 0.0,
        )
        for task, host in homes.items()
    ]


def _hosts(run: StoredRun, created: Event, training: _Training) -> list[HostResult]:
    tasks: dict[str, list[str]] = {}
    for place in created.get("places", []):
        tasks.setdefault(place["host"], []).append(place["task"])
    scopes = {
        event["host"]: _MACHINE_SCOPE if event["network"] == "machine" else _HOST_SCOPE for event in run.all("joined")
    }
    hosts = sorted(tasks, key=lambda name: int(name[1:]))
    found = host_results(
        run.samples,
        start_s=training.start_s,
        end_s=training.end_s,
        tasks={host: tasks[host] for host in hosts},
        scopes=scopes,
    )
    for host in found:
        host.link = _link(run, created, host.host)
    return found


def _link(run: StoredRun, created: Event, host: str) -> Link | None:
    """Machines that share one network have none."""
    joined = next((event for event in run.all("joined") if event["host"] == host), {})
    rate = created.get("limits", {}).get(host, {}).get("link_bits_s")
    if joined.get("network") != "host":
        return None
    if rate:
        return Link(tx_mb_s=rate / 8e6, rx_mb_s=rate / 8e6, known_from="by --link")
    measured = next((event for event in run.all("link") if event["host"] == host), None)
    return Link(tx_mb_s=measured["tx_mb_s"], rx_mb_s=measured["rx_mb_s"], known_from="measured") if measured else None


def _verdict(
    run: StoredRun, created: Event, workers: list[WorkerResult], hosts: list[HostResult], training: _Training
) -> Verdict:
    facts = collect_facts(
        run,
        workers,
        hosts,
        start_s=training.start_s,
        end_s=training.end_s,
        total_s=_total(run),
        other_cores=_other_cores(run, training),
    )
    asked = Asked(
        spec=created.get("spec", {}),
        layout=created.get("layout", ""),
        trains=created.get("trains", True),
        crowded=created.get("one_machine", False),
    )
    return judge(facts, asked)


def _other_cores(run: StoredRun, training: _Training) -> float:
    return other_cores(run.samples, start_s=training.start_s, end_s=training.end_s)


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


def _final(steps: pl.DataFrame, chief: Event) -> Final:
    if chief.get("value") is not None:
        return Final(loss=None, accuracy=None, value=chief["value"])
    if chief.get("loss") is not None:
        return Final(loss=chief["loss"], accuracy=chief["accuracy"], auc=chief.get("auc"))
    # A run that was cut short: its last evaluation is the best there is.
    last = steps.filter(pl.col("kind") == "eval").sort("t_s").tail(1)
    if len(last):
        accuracy = float(last["accuracy"][0])
        return Final(loss=float(last["loss"][0]), accuracy=None if math.isnan(accuracy) else accuracy)
    return Final(loss=None, accuracy=None)


def _reached(chief: Event, start_s: float) -> Reached | None:
    if not chief.get("reached") or chief.get("reached_s") is None:
        return None
    return Reached(
        rule=chief["reached"], at_s=round(chief["reached_s"] - start_s, 6), at_update=chief["reached_update"]
    )
