"""The bottleneck of the last seconds of a run in progress, judged as a period of a finished run is."""

from collections import deque
from collections.abc import Mapping, Sequence

import polars as pl

from paceline.analyze.bottleneck.over_time import judge_window
from paceline.analyze.run_wait import spread_run_wait
from paceline.analyze.run_window import RunWindow
from paceline.errors import StoreError
from paceline.messages import HostSample
from paceline.recording.layout import RECORD_BYTES
from paceline.store.events import Event
from paceline.store.header import RunHeader
from paceline.store.journal import ClockOffset, Entry, HostSamples, TaskRecords
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun, as_store_errors
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, Undone, sample_rows, step_rows
from paceline.store.verdict import Verdict

_KEPT_RECORDS = 400
"""Records of each task from which the bottleneck is found."""
_KEPT_SAMPLES = 80
"""Samples of each host for the same: those of 8 seconds."""
WINDOW_S = 5.0
"""Length of the period that is judged, unless the steps are so long that it holds too few of them."""
_STEPS = 4


class RecentRows:
    """The last records and samples of a run in progress, from the entries of its journal."""

    def __init__(self) -> None:
        self.clocks: dict[str, list[ClockOffset]] = {}
        self._records: dict[str, deque[bytes]] = {}
        self._samples: dict[str, deque[HostSample]] = {}

    def add(self, entry: Entry) -> None:
        match entry:
            case ClockOffset(host):
                self.clocks.setdefault(host, []).append(entry)
            case TaskRecords(task, data) if len(data) >= RECORD_BYTES:
                kept = self._records.setdefault(task, deque())
                kept.append(data)
                while len(kept) > 1 and sum(map(len, kept)) - len(kept[0]) >= _KEPT_RECORDS * RECORD_BYTES:
                    kept.popleft()
            case HostSamples(host, samples):
                self._samples.setdefault(host, deque(maxlen=_KEPT_SAMPLES)).extend(samples)

    def snapshot(self) -> "RecentRows":
        """A copy that later entries do not change, for another thread."""
        other = RecentRows()
        other.clocks = {host: list(clocks) for host, clocks in self.clocks.items()}
        other._records = {task: deque(kept) for task, kept in self._records.items()}
        other._samples = {host: deque(kept) for host, kept in self._samples.items()}
        return other

    def verdict(self, paths: RunPaths, header: RunHeader, events: Sequence[Event]) -> Verdict | None:
        """The bottleneck of the last seconds; None if too little is known."""
        if not self._records.keys() >= header.worker_hosts.keys():
            return None
        try:
            with as_store_errors(paths.id):
                return _judge(paths, header, events, self._last_steps(header.task_hosts), self._all_samples())
        except StoreError:
            return None

    def _last_steps(self, task_hosts: Mapping[str, str]) -> pl.DataFrame:
        rows = [pl.DataFrame(schema=STEPS_SCHEMA)]
        for task, kept in self._records.items():
            host, data = task_hosts.get(task, "?"), b"".join(kept)[-_KEPT_RECORDS * RECORD_BYTES :]
            rows.append(step_rows(task, host, data, self.clocks.get(host, ()), Undone()))
        table = pl.concat(rows)
        steps = table.filter(pl.col("kind") == "step")
        by_task = steps.group_by("task").agg(start_s=pl.col("t_s").min(), step_s=pl.col("duration_s").mean())
        if not len(by_task):
            return table
        seconds = max(WINDOW_S, _STEPS * float(by_task["step_s"].max() or 0.0))  # type: ignore[arg-type]
        end_s = float((steps["t_s"] + steps["duration_s"]).max() or 0.0)  # type: ignore[arg-type]
        # All workers count over the same seconds: from when the records of the busiest one begin.
        start_s = max(float(by_task["start_s"].max() or 0.0), end_s - seconds)  # type: ignore[arg-type]
        return table.filter(pl.col("t_s") >= start_s)

    def _all_samples(self) -> pl.DataFrame:
        rows = [
            sample_rows(host, list(kept), self.clocks[host])
            for host, kept in self._samples.items()
            if host in self.clocks
        ]
        return pl.concat([pl.DataFrame(schema=SAMPLES_SCHEMA), *rows])


def _judge(
    paths: RunPaths, header: RunHeader, events: Sequence[Event], steps: pl.DataFrame, samples: pl.DataFrame
) -> Verdict:
    run = StoredRun(paths)
    run.header, run.events = header, list(events)
    start_s = float(steps["t_s"].min() or 0.0)  # type: ignore[arg-type]
    end_s = float((steps["t_s"] + steps["duration_s"]).max() or 0.0)  # type: ignore[arg-type]
    inside = spread_run_wait(samples).filter(pl.col("t_s").is_between(start_s, end_s))
    return judge_window(RunWindow(run, steps, inside), start_s, end_s)
