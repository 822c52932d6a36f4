"""A stored run as the charts need it: result, tables and start of the training."""

from functools import cached_property

import polars as pl

from paceline.analyze.clocks import clock_uncertainty
from paceline.analyze.curves import learning_curves, staleness_histogram
from paceline.analyze.timeline import phase_spans
from paceline.analyze.training import training_start_s
from paceline.recording.folded_stacks import Stack
from paceline.recording.layout import TIMED_NAMES
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun


class RunData:
    """Reads the tables of a run once; they are freed with this object."""

    def __init__(self, result: Result, paths: RunPaths) -> None:
        self.result = result
        self._stored = StoredRun(paths)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """The rows of whole steps and of evaluations: a small part of the table, which may be large."""
        wanted = self._stored.scan_steps().filter(pl.col("kind").is_in(["step", "eval"]))
        return self._stored.collect(wanted.select("task", "kind", "step", "t_s", "duration_s"))

    @cached_property
    def staleness(self) -> pl.DataFrame:
        """Number of steps by worker and staleness."""
        return self._stored.collect(staleness_histogram(self._stored.scan_steps()))

    @property
    def samples(self) -> pl.DataFrame:
        return self._stored.samples

    @cached_property
    def start_s(self) -> float:
        """Start of the training on the run's clock; 0 in all charts."""
        return training_start_s(self._stored)

    def stacks(self, task: str) -> dict[Stack, int]:
        """The sampled stacks of a rank of a user's script; empty if it was not sampled."""
        return self._stored.stacks(task)

    @property
    def synchronous(self) -> bool:
        return self._stored.header.strategy.synchronous

    @cached_property
    def curves(self) -> pl.DataFrame:
        return learning_curves(self._stored, self.result)

    @cached_property
    def spans(self) -> pl.DataFrame:
        """The phases of every step. Of the table only the rows and columns that are needed are loaded."""
        timed = self._stored.scan_steps().filter(pl.col("kind").is_in(TIMED_NAMES))
        rows = self._stored.collect(timed.select("task", "host", "kind", "step", "t_s", "duration_s"))
        mixed_phase = self._stored.header.strategy.mixed_phase
        return phase_spans(rows, mixed_phase=mixed_phase, uncertainty=clock_uncertainty(self._stored))
