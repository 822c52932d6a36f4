"""Results of runs for Python code and notebooks: the values of result.json, and the tables of the run as frames."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import msgspec
import polars as pl
from rich.console import RenderableType

from paceline.api.render import as_html, as_text
from paceline.report.export import flat_fields
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

if TYPE_CHECKING:
    from paceline.api.comparison import RunComparison

_EVENT_SCHEMA = {"t_s": pl.Float64, "event": pl.String, "task": pl.String, "host": pl.String, "details": pl.String}


class RunResult(Result, kw_only=True, dict=True):
    """The result of a run, with the fields of result.json. Its tables are read from its directory when first used."""

    @cached_property
    def _stored(self) -> StoredRun:
        return StoredRun(RunPaths(Path(self.dir)))

    @property
    def steps(self) -> pl.DataFrame:
        """Every step of every task: steps.parquet."""
        return self._stored.steps

    def scan_steps(self) -> pl.LazyFrame:
        """The table of steps for a query, without loading all of it; for long runs."""
        return self._stored.scan_steps()

    @property
    def samples(self) -> pl.DataFrame:
        """The counters of each host, about ten times a second: samples.parquet."""
        return self._stored.samples

    @cached_property
    def events(self) -> pl.DataFrame:
        """What happened during the run: events.jsonl. The fields of an event without a column are JSON in `details`."""
        rows = [
            {name: event.get(name) for name in ("t_s", "event", "task", "host")}
            | {"details": msgspec.json.encode({k: v for k, v in event.items() if k not in _EVENT_SCHEMA}).decode()}
            for event in self._stored.events
        ]
        return pl.DataFrame(rows, schema=_EVENT_SCHEMA, strict=False)

    def to_frame(self) -> pl.DataFrame:
        """A frame with one row, and a column for each value, named by its path in the JSON: `workers.w0.steps`."""
        return _frame([self])

    def to_dict(self) -> dict[str, Any]:
        """The object that `paceline show --json` prints."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    def _renderable(self) -> RenderableType:
        from paceline.terminal.details import details

        return details(self)

    def __repr__(self) -> str:
        what = f"{self.title} · {self.engine} · {self.strategy} · '{self.layout}' · batch {self.batch}"
        return f"<run {self.run}: {what}, {self.status}, bottleneck {self.verdict.cause}>"

    def __str__(self) -> str:
        return as_text(self._renderable())

    def _repr_html_(self) -> str:
        return as_html(self._renderable())


class Results(list[RunResult]):
    """The results of several runs: a list, with the tables of all runs together."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> RunResult: ...

    @overload
    def __getitem__(self, index: slice) -> "Results": ...

    def __getitem__(self, index: SupportsIndex | slice) -> "RunResult | Results":
        if isinstance(index, slice):
            return Results(super().__getitem__(index))
        return super().__getitem__(index)

    @property
    def steps(self) -> pl.DataFrame:
        """The steps of all runs; the first column is the run."""
        return self._together([result.steps for result in self])

    @property
    def samples(self) -> pl.DataFrame:
        """The samples of all runs; the first column is the run."""
        return self._together([result.samples for result in self])

    @property
    def events(self) -> pl.DataFrame:
        """The events of all runs; the first column is the run."""
        return self._together([result.events for result in self])

    def to_frame(self) -> pl.DataFrame:
        """A frame with a row for each run, and a column for each value, named by its path in the JSON."""
        return _frame(self)

    def compare(self, base: "str | Result | None" = None) -> "RunComparison":
        """These runs compared with each other; `base` is the run to compare with, by default the first."""
        from paceline.api.comparison import compare_results

        return compare_results(self, base)

    def _together(self, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
        named = [
            table.select(pl.lit(result.run).alias("run"), pl.all()) for result, table in zip(self, tables, strict=True)
        ]
        return pl.concat(named, how="vertical_relaxed") if named else pl.DataFrame(schema={"run": pl.String})

    def _renderable(self) -> RenderableType:
        from paceline.analyze.comparison import compare
        from paceline.terminal.compare import comparison_view

        return self[0]._renderable() if len(self) == 1 else comparison_view(compare(self)) if self else "no runs"

    def __repr__(self) -> str:
        return "[" + "\n ".join(map(repr, self)) + "]"

    def __str__(self) -> str:
        return as_text(self._renderable())

    def _repr_html_(self) -> str:
        return as_html(self._renderable())


def as_results(results: Iterable[Result]) -> Results:
    """The same results, with their tables."""
    fields = Result.__struct_fields__
    return Results(RunResult(**{name: getattr(result, name) for name in fields}) for result in results)


def _frame(results: Sequence[Result]) -> pl.DataFrame:
    rows = [dict(flat_fields(msgspec.to_builtins(result))) for result in results]
    columns = dict.fromkeys(column for row in rows for column in row)
    # Text wins in a column that has both text and numbers, such as checkpoint_every with 500 and 30s.
    return pl.DataFrame({column: _column([row.get(column) for row in rows]) for column in columns}, strict=False)


def _column(values: Sequence[Any]) -> list[Any]:
    if any(isinstance(value, str) for value in values):
        return [value if value is None or isinstance(value, str) else str(value) for value in values]
    if any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return list(values)
