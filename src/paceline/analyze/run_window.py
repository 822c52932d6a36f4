"""A run in which only a period of its training is visible."""

from collections.abc import Iterator
from functools import cached_property

import msgspec
import polars as pl

from paceline.store.events import Event
from paceline.store.header import RunHeader
from paceline.store.run import StoredRun


class RunWindow(StoredRun):
    """A stored run with the steps and samples of a period only, and with all its events.

    The whole analysis can be applied to it. `steps` and `samples` are those of the period.
    """

    def __init__(self, run: StoredRun, steps: pl.DataFrame, samples: pl.DataFrame) -> None:
        super().__init__(run.paths)
        self._run, self._steps, self._samples = run, steps, samples

    @cached_property
    def header(self) -> RunHeader:
        # The steps of the run that this one resumes are not in the period.
        return msgspec.structs.replace(self._run.header, resumed=None)

    @cached_property
    def events(self) -> list[Event]:
        return self._run.events

    @cached_property
    def steps(self) -> pl.DataFrame:
        return self._steps

    @cached_property
    def samples(self) -> pl.DataFrame:
        return self._samples

    def scan_steps(self) -> pl.LazyFrame:
        return self._steps.lazy()

    def step_parts(self) -> Iterator[pl.DataFrame]:
        yield self._steps

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        return query.collect()
