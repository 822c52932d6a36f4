"""Paces measured in turns, so that a noisy minute hits every contender alike."""

import tempfile
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import paceline
from bench.quiet import Stolen
from paceline.store.result import Result

Contender = Callable[[], float]
_MOST_TRIES = 4
console = Console(width=120, highlight=False)


class Pace(msgspec.Struct, frozen=True):
    """A figure over several rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 2
        return f"{self.median:,.{digits}f} ({min(self.values):,.{digits}f} to {max(self.values):,.{digits}f})"


def in_turns(contenders: Mapping[str, Contender], rounds: int) -> dict[str, Pace]:
    """Every contender once a round."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        for name, contender in contenders.items():
            values[name].append(_undisturbed(name, contender))
            console.print(f"  round {number} of {rounds}: {name} {values[name][-1]:,.4g}", style="dim")
    return {name: Pace(tuple(found)) for name, found in values.items()}


def _undisturbed(name: str, contender: Contender) -> float:
    """Measured again if this virtual machine was kept waiting for its cores; of several tries, the quietest."""
    tries: list[tuple[float, float]] = []
    for _ in range(_MOST_TRIES):
        with Stolen() as stolen:
            value = contender()
        tries.append((stolen.cores, value))
        if not stolen.disturbs:
            break
        console.print(f"  disturbed, {stolen.cores:.2f} cores were taken away: {name} {value:,.4g}", style="dim")
    return min(tries)[1]


def ours(workload: str, figure: str = "updates_per_s", **fields: Any) -> Contender:
    """A figure of one run of ours."""
    return lambda: float(getattr(result_of(workload, **fields), figure))


def result_of(workload: str, **fields: Any) -> Result:
    """One run of ours; its runs directory is thrown away."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs:
        (result,) = paceline.run(workload, runs=runs, **fields)
    if result.status != "ok":
        raise RuntimeError(f"a run of the bench ended {result.status}: {result.reason}")
    return result


def show(
    title: str, paces: Mapping[str, Pace], claims: Mapping[str, tuple[float, str]], unit: str = "updates/s"
) -> None:
    """The table, and each claim with the ratio that was measured."""
    table = Table("what", f"{unit}: median (least to most)", title=title, title_justify="left", box=None)
    for name, pace in paces.items():
        table.add_row(name, str(pace))
    console.print(table)
    for claim, (ratio, wanted) in claims.items():
        console.print(f"  {claim}: {ratio:.2f} ({wanted})")
    console.print()
