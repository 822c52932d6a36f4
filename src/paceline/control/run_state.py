"""The current state of a run as plain numbers, for the live view and the live metrics. `Ingest` keeps it up to date."""

import copy
from collections import deque
from collections.abc import Iterable

import msgspec
import numpy as np

from paceline.messages import HostSample
from paceline.plan.place import RunPlan
from paceline.recording.layout import EVAL, STEP, TIMED_NAMES, RecordKind
from paceline.recording.recorder import clock_ns
from paceline.recording.rows import of_kind, spent_ns
from paceline.store.result import Status

_TIMED_KINDS = {name: int(RecordKind[name.upper()]) for name in TIMED_NAMES}
_WINDOW_S = 2.0
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
    steps_per_s: float = 0.0
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


class RunState:
    """Everything that a live view shows of one run."""

    def __init__(self, run: str, plan: RunPlan) -> None:
        self.run, self.plan = run, plan
        self.stage = "starting"
        self.opened_ns: int | None = None
        self.ended_ns: int | None = None
        self.status: Status | None = None
        """Status of the run after its end; None before."""
        self.incidents = 0
        self.evaluation: tuple[int, float, float] | None = None
        """(update, loss, accuracy) of the last evaluation."""
        self.workers = {place.task: WorkerState(place.task, place.host) for place in plan.workers}
        self.hosts = {host: HostState(host) for host in plan.layout.hosts}
        self._step_counts: dict[str, deque[tuple[int, int]]] = {task: deque() for task in self.workers}
        self._samples: dict[str, deque[HostSample]] = {host: deque() for host in self.hosts}

    def open(self) -> None:
        self.stage, self.opened_ns = "training", clock_ns()

    def end(self, status: Status) -> None:
        self.stage, self.status, self.ended_ns = "ended", status, clock_ns()

    def snapshot(self) -> "RunState":
        """A copy that later records and samples do not change, for readers in other threads."""
        other = copy.copy(self)
        other.workers = {task: copy.copy(worker) for task, worker in self.workers.items()}
        other.hosts = {name: copy.copy(host) for name, host in self.hosts.items()}
        return other

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.opened_ns is None else ((self.ended_ns or clock_ns()) - self.opened_ns) / 1e9

    @property
    def update(self) -> int:
        return max((worker.update for worker in self.workers.values()), default=0)

    @property
    def updates_per_s(self) -> float:
        rates = [worker.steps_per_s for worker in self.workers.values()]
        # A synchronous update takes one step of every worker; in an asynchronous run every step is an update.
        return sum(rates) / len(rates) if self.plan.strategy.synchronous else sum(rates)

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
            self._set_steps_per_s(worker, steps)
            _count_staleness(worker, steps["staleness"])
        seconds = _seconds(records)
        worker.phases = _shares(seconds)
        counted = records["flags"] == 0  # Neither traced nor the final evaluation.
        worker.phase_s = _add(worker.phase_s, seconds if counted.all() else _seconds(records[counted]))
        if len(evaluations):
            last = evaluations[-1]
            self.evaluation = (int(last["update"]), float(last["loss"]), float(last["accuracy"]))

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
        state.last = last
        state.memory_mb = last.memory_bytes / 1e6
        if seconds > 0:
            state.cpu_cores = (last.cpu_s - first.cpu_s) / seconds
            state.external_mb_s = _bytes_moved(first.external, last.external) / seconds / 1e6
            state.loopback_mb_s = (last.loopback.rx_bytes - first.loopback.rx_bytes) / seconds / 1e6

    def _set_steps_per_s(self, worker: WorkerState, steps: np.ndarray) -> None:
        counts, end_ns = self._step_counts[worker.task], int(steps[-1]["end_ns"])
        if not counts:
            counts.append((int(steps[0]["start_ns"]), worker.steps - len(steps)))
        counts.append((end_ns, worker.steps))
        while len(counts) > 2 and end_ns - counts[0][0] > _WINDOW_S * 1e9:
            counts.popleft()
        elapsed = (end_ns - counts[0][0]) / 1e9
        if elapsed > 0:
            worker.steps_per_s = (worker.steps - counts[0][1]) / elapsed


def _bytes_moved(first: object, last: object) -> int:
    return sum(getattr(last, direction) - getattr(first, direction) for direction in ("rx_bytes", "tx_bytes"))


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
