"""The current state of a run as plain numbers, for the live view and the live metrics. `Ingest` keeps it up to date."""

import copy
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np

from paceline.control.step_rate import StepRate
from paceline.messages import HostSample
from paceline.plan.place import RunPlan
from paceline.plan.roles import CHIEF
from paceline.recording.layout import EVAL, STEP, TIMED_NAMES, RecordKind
from paceline.recording.recorder import clock_ns
from paceline.recording.rows import of_kind, spent_ns
from paceline.spec.fault import Fault
from paceline.spec.stop import PLATEAU, Improvement, StopRule
from paceline.store.result import Status

_TIMED_KINDS = {name: int(RecordKind[name.upper()]) for name in TIMED_NAMES}
_WINDOW_S = 2.0
_SAMPLES_LATE_S = 3.0
"""Agents send samples about once a second. A host without any for this long is shown as silent."""
_THROUGHPUT_EVERY_S = 1.0
_THROUGHPUT_VALUES = 240
STALENESS_BOUNDS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
"""Upper bounds of the staleness histogram: updates by other workers between a worker's pull and its push."""
_BOUNDS = np.array(STALENESS_BOUNDS)


class WorkerState(msgspec.Struct):
    """State of one worker. Its dictionaries and tuples are replaced, never modified, so shallow copies stay valid."""

    task: str
    host: str
    steps: int = 0
    next_step: int = 0
    """Number of the step after the last one reported. Unlike `steps`, it does not count repeated steps twice."""
    update: int = 0
    loss: float = float("nan")
    condition: str | None = None
    """Why the worker makes no steps, if that is known: eval, checkpoint, wait, finished, exited or restarting."""
    phases: dict[str, float] = {}
    """Share of each phase in the time of the last records that arrived together."""
    phase_s: dict[str, float] = {}
    """Seconds so far, by phase. Traced steps and the final evaluation are left out, as in the result."""
    staleness_counts: tuple[int, ...] = (0,) * (len(STALENESS_BOUNDS) + 1)
    """Histogram of steps by staleness; the last class is above all STALENESS_BOUNDS."""
    staleness_sum: int = 0


class HostState(msgspec.Struct):
    host: str
    cpu_cores: float = 0.0
    memory_mb: float = 0.0
    external_mb_s: float = 0.0
    loopback_mb_s: float = 0.0
    last: HostSample | None = None
    received_ns: int = 0
    """When its last sample was received."""


class ServerState(msgspec.Struct):
    task: str
    host: str
    cpu_cores: float = 0.0
    memory_mb: float = 0.0


class Mark(msgspec.Struct, frozen=True):
    """A fault that was injected, or an incident."""

    kind: Literal["fault", "incident"]
    what: str
    at_s: float
    """Seconds of training; 0 before training begins."""
    target: str | None = None
    """The task or host that it concerns."""
    over_s: float | None = None
    """When the fault was undone; None while it lasts."""

    @property
    def lasts(self) -> bool:
        return self.kind == "fault" and self.over_s is None


class CurrentBottleneck(msgspec.Struct, frozen=True):
    cause: str
    where: str
    share: float
    since_s: float
    """Seconds of training."""


class WaitingFor(msgspec.Struct, frozen=True):
    what: str
    """Completes the sentence "waiting for …"."""
    missing: tuple[str, ...] = ()
    """The hosts or tasks that have not done it yet."""


class RunState:
    """Everything that a live view shows of one run."""

    def __init__(self, run: str, plan: RunPlan, clock: Callable[[], int] = clock_ns) -> None:
        """`clock`: the time in ns, on the clock of this process."""
        self.run, self.plan, self._clock = run, plan, clock
        self.created_ns = clock()
        self.stage = "starting"
        self.opened_ns: int | None = None
        self.ended_ns: int | None = None
        self.status: Status | None = None
        """Status of the run after its end; None before."""
        self.marks: tuple[Mark, ...] = ()
        """Faults and incidents, in the order of time."""
        self.waiting_for: WaitingFor | None = None
        """What the run needs before it can go on; None while it trains."""
        self.bottleneck: CurrentBottleneck | None = None
        """The bottleneck of the last seconds; None while it is not known."""
        self.throughput: tuple[float, ...] = ()
        """Updates per second, once a second; the last minutes."""
        self.losses: tuple[float, ...] = ()
        """The mean of the workers' last training losses, at the same times as `throughput`; NaN where none is known."""
        self._throughput_due_ns = 0
        self.evaluation: tuple[int, float, float] | None = None
        """(update, loss, accuracy) of the last evaluation."""
        self.improvement = {str(rule): Improvement() for rule in plan.spec.stop if rule.needs_evaluations}
        """By stop rule, how its loss or accuracy has improved so far."""
        self.best_evaluations: dict[str, tuple[int, float, float]] = {}
        """By stop rule, (update, loss, accuracy) of the evaluation at which its loss or accuracy was best."""
        self.workers = {place.task: WorkerState(place.task, place.host) for place in plan.workers}
        self.servers = {place.task: ServerState(place.task, place.host) for place in plan.servers}
        self.hosts = {host: HostState(host) for host in plan.layout.hosts}
        self._rates = {task: StepRate(self.created_ns) for task in self.workers}
        self._samples: dict[str, deque[HostSample]] = {host: deque() for host in self.hosts}

    def open(self) -> None:
        """The barrier opened: training begins."""
        self.stage, self.opened_ns = "training", self._clock()
        self.begin(self.workers)

    def begin(self, tasks: Iterable[str]) -> None:
        """These tasks train from now on, after a start or a restart."""
        for worker in self._workers_of(tasks):
            worker.condition = None
            self._rates[worker.task].restart(self._clock())

    def busy(self, task: str, activity: str | None) -> None:
        """A task works on something between steps, or makes steps again (None)."""
        for worker in self._workers_of((task,)):
            worker.condition = worker.condition if worker.condition == "finished" else activity

    @property
    def is_ending(self) -> bool:
        """Whether a worker has made its last step: what the others do from then on is not training as before."""
        return any(worker.condition == "finished" for worker in self.workers.values())

    def finished(self, task: str) -> None:
        for worker in self._workers_of((task,)):
            worker.condition = "finished"

    def exited(self, task: str) -> None:
        for worker in self._workers_of((task,)):
            worker.condition = worker.condition if worker.condition == "finished" else "exited"

    def restarting(self, tasks: Iterable[str]) -> None:
        for worker in self._workers_of(tasks):
            worker.condition = "restarting"

    def _workers_of(self, tasks: Iterable[str]) -> list[WorkerState]:
        return [self.workers[task] for task in tasks if task in self.workers]

    def end(self, status: Status) -> None:
        self.stage, self.status, self.ended_ns = "ended", status, self._clock()

    def add_incident(self, what: str, target: str | None = None) -> None:
        self.marks += (Mark("incident", what, self.elapsed_s, target),)

    def add_fault(self, fault: Fault) -> None:
        # A kill takes no time; all other faults last until they are undone.
        over_s = self.elapsed_s if fault.kind == "kill" else None
        self.marks += (Mark("fault", str(fault), self.elapsed_s, fault.target, over_s),)

    def end_fault(self, fault: Fault) -> None:
        self.marks = tuple(
            msgspec.structs.replace(mark, over_s=self.elapsed_s) if mark.lasts and mark.what == str(fault) else mark
            for mark in self.marks
        )

    def tick(self) -> None:
        """Add to `throughput` once a second, from the first step on. To be called more often than that."""
        now_ns, has_begun = self._clock(), any(worker.steps for worker in self.workers.values())
        if self.stage == "training" and has_begun and now_ns >= self._throughput_due_ns:
            self._throughput_due_ns = now_ns + round(_THROUGHPUT_EVERY_S * 1e9)
            self.throughput = (*self.throughput, self.updates_per_s)[-_THROUGHPUT_VALUES:]
            self.losses = (*self.losses, self._mean_loss)[-_THROUGHPUT_VALUES:]

    def snapshot(self) -> "RunState":
        """A copy that later records and samples do not change, for readers in other threads."""
        other = copy.copy(self)
        other.workers = {task: copy.copy(worker) for task, worker in self.workers.items()}
        other.improvement = {rule: copy.copy(improvement) for rule, improvement in self.improvement.items()}
        other.hosts = {name: copy.copy(host) for name, host in self.hosts.items()}
        return other

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.opened_ns is None else ((self.ended_ns or self._clock()) - self.opened_ns) / 1e9

    @property
    def age_s(self) -> float:
        """Seconds since the start of the run."""
        return (self._clock() - self.created_ns) / 1e9

    @property
    def incidents(self) -> int:
        return sum(mark.kind == "incident" for mark in self.marks)

    @property
    def update(self) -> int:
        return max((worker.update for worker in self.workers.values()), default=0)

    @property
    def updates_per_s(self) -> float:
        rates = [self.steps_per_s(task) for task in self.workers]
        # A synchronous update takes one step of every worker; in an asynchronous run every step is an update.
        return sum(rates) / len(rates) if self.plan.strategy.synchronous else sum(rates)

    @property
    def _mean_loss(self) -> float:
        losses = [worker.loss for worker in self.workers.values() if worker.steps and math.isfinite(worker.loss)]
        return sum(losses) / len(losses) if losses else math.nan

    def steps_per_s(self, task: str) -> float:
        """Of a worker, over the last seconds: it falls to 0 if the worker stops."""
        return self._rates[task].per_s(self._clock())

    def stalled_s(self, task: str) -> float | None:
        """Seconds that a worker has made no step, if that is unusually long for it; else None."""
        return self._rates[task].stalled_s(self._clock()) if self.stage == "training" else None

    def silent_s(self, host: str) -> float | None:
        """Seconds without a sample of a host, if its samples are overdue; else None."""
        silent_s = (self._clock() - self.hosts[host].received_ns) / 1e9
        return silent_s if self.hosts[host].last and silent_s >= _SAMPLES_LATE_S else None

    @property
    def evaluations_without_improvement(self) -> int:
        """Evaluations since any of the requested losses and accuracies was at its best; 0 without such a target."""
        targets = [str(rule) for rule in self.plan.spec.stop if rule.is_target]
        return min((self.improvement[rule].evaluations_since for rule in targets), default=0)

    def add_records(self, task: str, records: np.ndarray) -> None:
        worker = self.workers.get(task)
        if worker is None or not len(records):
            return
        steps, evaluations = of_kind(records, STEP), of_kind(records, EVAL)
        if len(steps):
            last = steps[-1]
            worker.steps += len(steps)
            worker.next_step = int(last["step"]) + 1
            worker.update, worker.loss = int(last["update"]), float(last["loss"])
            start_ns, end_ns = int(steps[0]["start_ns"]), int(last["end_ns"])
            self._rates[task].add(start_ns, end_ns, len(steps), self._clock())
            _count_staleness(worker, steps["staleness"])
        seconds = _seconds(records)
        worker.phases = _shares(seconds)
        counted = records["flags"] == 0  # Neither traced nor the final evaluation.
        worker.phase_s = _add(worker.phase_s, seconds if counted.all() else _seconds(records[counted]))
        if len(evaluations) and task == CHIEF:
            last = evaluations[-1]
            self.evaluation = (int(last["update"]), float(last["loss"]), float(last["accuracy"]))
            self._add_evaluations(evaluations)

    def _add_evaluations(self, evaluations: np.ndarray) -> None:
        for rule in self.plan.spec.stop:
            if improvement := self.improvement.get(str(rule)):
                for one, value in _with_values(rule, evaluations):
                    if improvement.add(value) == 0:
                        best = int(one["update"]), float(one["loss"]), float(one["accuracy"])
                        # Not changed in place: snapshots share it.
                        self.best_evaluations = {**self.best_evaluations, str(rule): best}

    def add_samples(self, host: str, samples: Iterable[HostSample]) -> None:
        recent = self._samples[host]
        recent.extend(samples)
        if not recent:
            return
        while len(recent) > 2 and recent[-1].t_ns - recent[0].t_ns > _WINDOW_S * 1e9:
            recent.popleft()
        first, last = recent[0], recent[-1]
        seconds = (last.t_ns - first.t_ns) / 1e9
        state = self.hosts[host]
        state.last, state.received_ns = last, self._clock()
        state.memory_mb = last.memory_bytes / 1e6
        if seconds > 0:
            state.cpu_cores = (last.cpu_s - first.cpu_s) / seconds
            state.external_mb_s = _bytes_moved(first.external, last.external) / seconds / 1e6
            state.loopback_mb_s = (last.loopback.rx_bytes - first.loopback.rx_bytes) / seconds / 1e6
        self._set_servers(first, last, seconds)

    def _set_servers(self, first: HostSample, last: HostSample, seconds: float) -> None:
        before = {task.task: task.cpu_s for task in first.tasks}
        for task in last.tasks:
            if server := self.servers.get(task.task):
                server.memory_mb = task.rss_bytes / 1e6
                if seconds > 0:
                    # A restarted server counts from 0 again.
                    server.cpu_cores = max(0.0, task.cpu_s - before.get(task.task, 0.0)) / seconds


def _bytes_moved(first: object, last: object) -> int:
    return sum(getattr(last, direction) - getattr(first, direction) for direction in ("rx_bytes", "tx_bytes"))


def _with_values(rule: StopRule, evaluations: np.ndarray) -> Iterator[tuple[np.void, float]]:
    """Evaluations with the quality that the rule names, of which less is better.

    Records have only loss and accuracy: of another quality it is the loss that says if the model improves, and nothing
    if there is none.
    """
    for one in evaluations:
        if rule.kind == "accuracy":
            yield one, -float(one["accuracy"])
        elif rule.kind in ("loss", PLATEAU) or not math.isnan(one["loss"]):
            yield one, float(one["loss"])


def _seconds(records: np.ndarray) -> dict[str, float]:
    by_kind = spent_ns(records).tolist()
    return {name: by_kind[kind] / 1e9 for name, kind in _TIMED_KINDS.items() if by_kind[kind]}


def _shares(seconds: dict[str, float]) -> dict[str, float]:
    total = sum(seconds.values())
    return {phase: spent / total for phase, spent in seconds.items()}


def _add(before: dict[str, float], more: dict[str, float]) -> dict[str, float]:
    return before | {phase: before.get(phase, 0.0) + seconds for phase, seconds in more.items()}


def _count_staleness(worker: WorkerState, staleness: np.ndarray) -> None:
    known = staleness[staleness >= 0]
    classes = np.bincount(np.searchsorted(_BOUNDS, known), minlength=len(STALENESS_BOUNDS) + 1)
    worker.staleness_counts = tuple(int(n) + before for n, before in zip(classes, worker.staleness_counts, strict=True))
    worker.staleness_sum += int(known.sum())
