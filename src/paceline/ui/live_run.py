"""The state of a run in progress, read from the files that its controller writes anyway."""

import numpy as np

from paceline.analyze.recent import RecentRows
from paceline.page.blocks import Mark
from paceline.plan.roles import CHIEF
from paceline.recording.layout import EVAL, RECORD_BYTES, RecordKind
from paceline.recording.recorder import clock_ns
from paceline.recording.rows import as_written, of_kind
from paceline.store.events import Event
from paceline.store.header import EVENT as HEADER_EVENT
from paceline.store.header import RunHeader, read_header
from paceline.store.in_progress import EventTail, JournalTail
from paceline.store.journal import ClockOffset, Entry, HostSamples, TaskRecords
from paceline.store.paths import RunPaths
from paceline.store.tables import on_run_clock
from paceline.store.verdict import Verdict
from paceline.ui.history import Intervals, Series
from paceline.ui.live_host import LiveHost, counters_of
from paceline.ui.live_worker import LiveWorker

_MOST_EVALUATIONS = 1_000
_DAY_NS = 86_400 * 10**9


class LiveRun:
    """`advance` reads what was written since its last call."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.events: list[Event] = []
        self.header: RunHeader | None = None
        self.intervals = Intervals()
        self.workers: dict[str, LiveWorker] = {}
        self.hosts: dict[str, LiveHost] = {}
        self.step_counts: Series[int] = Series(self.intervals, lambda one, other: one + other)
        self.losses: Series[tuple[float, int]] = Series(self.intervals, lambda a, b: (a[0] + b[0], a[1] + b[1]))
        self.evaluations: list[tuple[float, int, float, float]] = []
        """Training time, update, loss and accuracy."""
        self.marks: list[Mark] = []
        self.opened_s: float | None = None
        """When the training began, on the run's clock."""
        self.ended: Event | None = None
        self._event_tail, self._journal = EventTail(paths.events), JournalTail(paths.journal)
        self._recent = RecentRows()
        self._waiting: list[Entry] = []

    def advance(self) -> bool:
        """Read what is new; whether there was something. StoreError if the header of the run cannot be read."""
        events, entries = self._event_tail.new_events(), self._journal.new_entries()
        for event in events:
            self._add_event(event)
        if self.header is None:
            self._waiting += entries
            return bool(events)
        for entry in [*self._waiting, *entries]:
            self._add_entry(entry, self.header)
        self._waiting = []
        return bool(events or entries)

    @property
    def clock_s(self) -> float:
        """The run's clock now, which is 0 at its start."""
        return (clock_ns() - self.header.clock_zero_ns) / 1e9 if self.header else 0.0

    @property
    def now_s(self) -> float:
        """The time of training; 0 before it begins."""
        return 0.0 if self.opened_s is None else max(0.0, self.clock_s - self.opened_s)

    @property
    def update(self) -> int:
        return max((worker.update for worker in self.workers.values()), default=0)

    @property
    def updates_per_s(self) -> float:
        rates = [worker.rate.per_s(clock_ns()) for worker in self.workers.values()]
        # A synchronous update takes one step of every worker; in an asynchronous run every step is an update.
        synchronous = self.header is not None and self.header.strategy.synchronous
        return sum(rates) / max(1, len(rates)) if synchronous else sum(rates)

    def verdict(self) -> Verdict | None:
        """The bottleneck of the last seconds; None if too little is known."""
        if self.header is None or self.opened_s is None:
            return None
        return self._recent.verdict(self.paths, self.header, self.events)

    def _clock_of(self, task: str) -> list[ClockOffset]:
        return self._recent.clocks.get(self.header.task_hosts.get(task, "?") if self.header else "?", [])

    def _add_event(self, event: Event) -> None:
        self.events.append(event)
        name, task = event["event"], str(event.get("task"))
        if name == HEADER_EVENT:
            self._add_header(read_header(self.paths.id, event))
        elif name == "go" and self.opened_s is None:
            self.opened_s = float(event["t_s"])
        elif name == "ended":
            self.ended = event
        elif name in ("exited", "finished") and task in self.workers:
            worker = self.workers[task]
            worker.condition = worker.condition if worker.condition == "finished" else name
        elif name in ("restarting", "back"):
            for restarted in event.get("tasks") or ():
                if worker_ := self.workers.get(str(restarted)):
                    worker_.condition = "restarting" if name == "restarting" else None
                    worker_.rate.restart(clock_ns())
        elif name in ("fault", "fault-over", "incident"):
            self._add_mark(name, event)

    def _add_mark(self, name: str, event: Event) -> None:
        at_s, text = round(float(event["t_s"]) - (self.opened_s or float(event["t_s"])), 3), str(event.get("what"))
        if name == "fault-over":
            lasting = [n for n, mark in enumerate(self.marks) if mark.text == text and mark.until is None]
            for number in lasting[:1]:
                begun = self.marks[number]
                self.marks[number] = Mark(kind="fault", at=begun.at, until=at_s, text=text)
        else:
            # A kill takes no time; all other faults last until they are undone.
            until = at_s if name == "fault" and text.startswith("kill") else None
            self.marks.append(Mark(kind=name, at=at_s, until=until, text=text))

    def _add_header(self, header: RunHeader) -> None:
        self.header = header
        self.workers = {task: LiveWorker(task, host, clock_ns()) for task, host in header.worker_hosts.items()}
        self.hosts = {
            host: LiveHost(host, self.intervals) for host in dict.fromkeys(place.host for place in header.places)
        }

    def _add_entry(self, entry: Entry, header: RunHeader) -> None:
        self._recent.add(entry)
        match entry:
            case TaskRecords(task, data) if len(data) >= RECORD_BYTES:
                self._add_records(task, as_written(data), header)
            # The time of a sample is not known before the clock of its host was compared with the controller's.
            case HostSamples(host, samples) if host in self.hosts and samples and host in self._recent.clocks:
                times = np.array([sample.t_ns for sample in samples], np.int64)
                seconds = on_run_clock(times, self._recent.clocks.get(host, ())) / 1e9
                counters = [counters_of(one, float(t)) for one, t in zip(samples, seconds, strict=True)]
                self.hosts[host].add(counters, self.opened_s)

    def _add_records(self, task: str, records: np.ndarray, header: RunHeader) -> None:
        worker = self.workers.get(task)
        if worker is None:
            return
        ends_ns = on_run_clock(records["end_ns"].astype(np.int64), self._clock_of(task))
        now_ns, written_ns = clock_ns(), header.clock_zero_ns + int(ends_ns.max())
        # A page that is opened late must see at once that a worker has stopped: what it reads now was received then.
        received_ns = min(now_ns, written_ns + 10**9) if 0 <= now_ns - written_ns < _DAY_NS else now_ns
        steps = worker.add(records, received_ns)
        start_s = self.opened_s or 0.0
        if len(steps):
            worker.condition = None if worker.condition == "restarting" else worker.condition
            ends_s = ends_ns[records["kind"] == RecordKind.STEP] / 1e9 - start_s
            numbers, counts = np.unique(np.maximum(0, ends_s // self.intervals.width_s), return_counts=True)
            width_s = self.intervals.width_s
            for number, count in zip(numbers, counts, strict=True):
                self.step_counts.add(float(number) * width_s, int(count))
            finite = steps["loss"][np.isfinite(steps["loss"])]
            if len(finite):
                self.losses.add(max(0.0, float(ends_s[-1])), (float(finite.sum()), len(finite)))
        if task == CHIEF and len(self.evaluations) < _MOST_EVALUATIONS:
            for one in of_kind(records, EVAL):
                at_s = float(on_run_clock(np.array([one["end_ns"]], np.int64), self._clock_of(task))[0]) / 1e9 - start_s
                self.evaluations.append(
                    (round(at_s, 3), int(one["update"]), float(one["loss"]), float(one["accuracy"]))
                )
