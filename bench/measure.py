"""Measures several cases round-robin, so that a busy minute of the machine affects all of them equally."""

import tempfile
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import paceline
from bench.cpu_steal import StealMeter
from paceline.store.result import Result

Case = Callable[[], float]
"""A function that measures once and returns the value."""
_MAX_TRIES = 4
console = Console(width=120, highlight=False)


class Measurement(msgspec.Struct, frozen=True):
    """The values of one case, one per round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 2
        return f"{self.median:,.{digits}f} ({min(self.values):,.{digits}f} to {max(self.values):,.{digits}f})"


def measure(cases: Mapping[str, Case], rounds: int) -> dict[str, Measurement]:
    """Measure every case once per round."""
    values: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(1, rounds + 1):
        for name, case in cases.items():
            values[name].append(_measure_undisturbed(name, case))
            console.print(f"  round {number} of {rounds}: {name} {values[name][-1]:,.4g}", style="dim")
    return {name: Measurement(tuple(case_values)) for name, case_values in values.items()}


def _measure_undisturbed(name: str, case: Case) -> float:
    """Measure again while CPU steal is too high, a few times at most; returns the value with the least CPU steal."""
    tries: list[tuple[float, float]] = []
    for _ in range(_MAX_TRIES):
        with StealMeter() as steal:
            value = case()
        tries.append((steal.cores, value))
        if not steal.is_too_high:
            break
        console.print(f"  disturbed, {steal.cores:.2f} cores were stolen: {name} {value:,.4g}", style="dim")
    return min(tries)[1]


def paceline_case(workload: str, metric: str = "updates_per_s", **fields: Any) -> Case:
    """A case that runs Paceline once and returns a metric of the result."""
    return lambda: float(getattr(run_once(workload, **fields), metric))


def run_once(workload: str, **fields: Any) -> Result:
    """The result of one run in a temporary runs directory; RuntimeError if it did not end `ok`."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs:
        (result,) = paceline.run(workload, runs=runs, check=False, **fields)
    if result.status != "ok":
        raise RuntimeError(f"a benchmark run ended with status {result.status}: {result.reason}")
    return result


def ratio(measurements: Mapping[str, Measurement], numerator: str, denominator: str) -> float:
    """The ratio of two medians."""
    return measurements[numerator].median / measurements[denominator].median


def print_table(
    title: str,
    measurements: Mapping[str, Measurement],
    ratios: Mapping[str, tuple[float, str]],
    unit: str = "updates/s",
) -> None:
    """Print all measurements, then each ratio with a note on what is expected."""
    table = Table("case", f"{unit}: median (minimum to maximum)", title=title, title_justify="left", box=None)
    for name, measurement in measurements.items():
        table.add_row(name, str(measurement))
    console.print(table)
    for name, (value, note) in ratios.items():
        console.print(f"  {name}: {value:.2f} ({note})")
    console.print()
