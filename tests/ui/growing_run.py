"""A run in progress without a training: a real run directory whose lock is held and whose journal grows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from paceline import pipeline
from paceline.data.dataset import PreparedData
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint
from paceline.store.journal import ClockOffset, HostSamples, TaskAdded, TaskRecords
from paceline.store.writer import RunWriter
from report.stored import START_S, STEP_S, make_records, make_samples

AGE_S = 12.0
"""How long ago the run was started, as far as its files say."""


class GrowingRun:
    """Every worker makes 100 steps a second."""

    def __init__(self, runs: Path, **fields: Any) -> None:
        fields = {"workload": "logreg", "strategy": "ps-async", "stop": ["steps=100000", "loss=0.01"], **fields}
        (self.plan,) = pipeline.plan(experiment(fields))
        self.writer = RunWriter(runs, "growing", self.plan)
        ready = PreparedData(paths=(), source="made up", synthetic=True)
        zero_ns = self.writer.clock_zero_ns - int(AGE_S * 1e9)
        header = pipeline.header_of(self.plan, ready, ResumePoint(), clock_zero_ns=zero_ns)
        self.writer.write_header(msgspec.structs.replace(header, started_at="2026-01-02T03:04:05+00:00"))
        self.hosts = list(dict.fromkeys(place.host for place in self.plan.places))
        self.steps = 0

    def join(self) -> None:
        for host in self.hosts:
            self.event("joined", 0.1, host=host, cores=4, memory_bytes=8_000_000_000, network="host")
            self.writer.add(ClockOffset(host, 0, 0))
        for place in self.plan.workers:
            self.writer.add(TaskAdded(place.task, place.host))

    def open(self) -> None:
        self.event("go", START_S)

    def train(self, seconds: float, *, without: tuple[str, ...] = ()) -> None:
        """Record this many more seconds of training; the tasks in `without` make no steps."""
        count = round(seconds / STEP_S)
        numbers = np.arange(self.steps, self.steps + count)
        for index, place in enumerate(self.plan.workers):
            if place.task not in without:
                data = make_records(numbers, STEP_S, chief=index == 0, workers=len(self.plan.workers))
                self.writer.add(TaskRecords(place.task, data))
        begin_s = START_S + self.steps * STEP_S
        for number, host in enumerate(self.hosts):
            samples = [one for one in make_samples(begin_s + seconds, 10.0, number) if one.t_ns >= begin_s * 1e9]
            self.writer.add(HostSamples(host, samples))
        self.steps += count

    def event(self, name: str, t_s: float, **fields: Any) -> None:
        self.writer.event(name, t_s=t_s, **fields)


@contextmanager
def growing_run(runs: Path, **fields: Any) -> Iterator[GrowingRun]:
    run = GrowingRun(runs, **fields)
    try:
        yield run
    finally:
        run.writer.close()
        run.writer.release()
