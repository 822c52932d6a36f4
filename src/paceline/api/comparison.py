"""`paceline.compare`: which differences between runs are larger than the spread of their repeats."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from paceline.analyze.comparison import Comparison, as_json, compare
from paceline.api.render import as_html, as_text
from paceline.errors import UsageError
from paceline.store.result import Result


class RunComparison:
    """What `paceline compare` shows, as data, as text (`print`) and in a notebook."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def to_dict(self) -> dict[str, Any]:
        """The object that `paceline compare --json` prints."""
        return as_json(self._comparison)

    def to_frame(self) -> pl.DataFrame:
        """A row for each configuration: its runs, the options in which it differs, and the median of each metric."""
        rows = []
        for group in self.to_dict()["groups"]:
            medians = {name: figure["median"] for name, figure in group["figures"].items()}
            varied = {name: value if value is None else str(value) for name, value in group["varied"].items()}
            rows.append({"configuration": group["name"], "runs": len(group["runs"])} | varied | medians)
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    @property
    def differences(self) -> pl.DataFrame:
        """A row for each metric of each configuration: its ratio to the base with the bounds of a 95 % interval."""
        keys = ("figure", "group", "base", "ratio", "low", "high", "outcome", "better", "sentence")
        rows = [{key: difference[key] for key in keys} for difference in self.to_dict()["differences"]]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    @property
    def sentences(self) -> list[str]:
        """The best configuration for each goal, in words."""
        return [answer["sentence"] for answer in self.to_dict()["answers"]]

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self._comparison.names)}>"

    def __str__(self) -> str:
        from paceline.terminal.compare import comparison_view

        return as_text(comparison_view(self._comparison))

    def _repr_html_(self) -> str:
        from paceline.terminal.compare import comparison_view

        return as_html(comparison_view(self._comparison))


def compare_results(
    results: Sequence[Result], base: str | Result | None = None, *, by_sweep: bool | None = None
) -> RunComparison:
    """`base`: the run to compare the others with, as a result, as an id or as a directory."""
    if not results:
        raise UsageError("there are no runs to compare: give at least one")
    directories = {str(Path(result.dir).resolve()): result.dir for result in results}
    chosen = []
    if base is not None:
        name = base.dir if isinstance(base, Result) else base
        chosen = [result.dir for result in results if name in (result.run, result.dir)]
        chosen = chosen or [directories[path] for path in (str(Path(name).resolve()),) if path in directories]
        if not chosen:
            raise UsageError(f"base {name} is not among the runs to compare: add it to them")
    apart = len({Path(path).parent for path in directories}) > 1 if by_sweep is None else by_sweep
    return RunComparison(compare(results, base=chosen, by_sweep=apart))
