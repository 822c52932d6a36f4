"""The regret of `paceline advise`: how much worse its answer is than the best of a sweep over all candidates."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from rich.table import Table

import paceline
from bench.measure import console
from paceline.advice import Adviser
from paceline.prediction.results import Advice, Goal
from paceline.store.result import Result

_SPACE: dict[str, Any] = {
    "strategy": "ps-sync,ps-async,allreduce",
    "layout": "pw w,p w w,pw w w",
    "batch": "32,128,512",
    "hosts": "netns",
}
"""The candidates of each workload, with the link below."""
_LINKS = {"logreg": "50mbit", "lenet": "200mbit", "autoencoder": "500mbit"}
_GOAL = "examples/s"
_SWEEP_S = 6
_BUDGET = 0.25
"""Time for the search, as a part of the sweep's."""
Candidate = tuple[str, str, int]
"""Strategy, layout and batch."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    candidates: int
    sweep_s: float
    advice: Advice
    winner: str
    best: str
    regret: float
    """How much slower the winner is than the best of the sweep, both measured again by turns."""


def advise(rounds: int) -> None:
    """Sweep over all candidates of three workloads, search for the best in a quarter of the time, and compare."""
    outcomes = []
    for workload, link in _LINKS.items():
        with TemporaryDirectory() as directory:
            outcomes.append(_outcome({"workload": workload, "link": link, **_SPACE}, Path(directory), rounds))
            console.print(f"  {outcomes[-1].workload}: regret {outcomes[-1].regret:.1%}", style="dim")
    table = Table(
        *("workload", "candidates", "sweep (s)", "search (s)", "runs", "winner", "best of the sweep", "regret"),
        title=f"paceline advise --goal {_GOAL} against a sweep over all candidates",
        title_justify="left",
        box=None,
    )
    for one in outcomes:
        times = f"{one.sweep_s:.0f}", f"{one.advice.seconds:.0f}", str(one.advice.runs)
        table.add_row(one.workload, str(one.candidates), *times, one.winner, one.best, f"{one.regret:.1%}")
    console.print(table)
    console.print("  expected: a regret of at most 3 %, in at most a quarter of the time")


def _outcome(fields: Mapping[str, Any], directory: Path, rounds: int) -> Outcome:
    candidates = [
        (plan.strategy.name, str(plan.layout), plan.spec.batch)
        for plan in _adviser(fields, directory / "none", budget_s=1.0).plans
    ]
    start = time.monotonic()
    swept = _measure(fields, candidates, directory / "sweep")
    sweep_s = time.monotonic() - start
    advice = _adviser(fields, directory / "search", sweep_s * _BUDGET).advise()
    found = next(one for one in advice.candidates if one.command == advice.command)
    winner, best = (found.strategy, found.layout, found.batch), max(swept, key=lambda one: swept[one])
    again = [_measure(fields, list(dict.fromkeys((winner, best))), directory / f"{turn}") for turn in range(rounds)]
    of_winner, of_best = (median(values[one] for values in again) for one in (winner, best))
    return Outcome(
        workload=fields["workload"],
        candidates=len(candidates),
        sweep_s=sweep_s,
        advice=advice,
        winner=_words(winner),
        best=_words(best),
        regret=max(0.0, 1 - of_winner / of_best),
    )


def _adviser(fields: Mapping[str, Any], directory: Path, budget_s: float) -> Adviser:
    def make_run(one: Mapping[str, Any]) -> Result:
        (result,) = paceline.run(**{**one, "runs": str(directory)}, check=False)
        return result

    return Adviser({**fields, "runs": str(directory)}, Goal.parse(_GOAL), budget_s, make_run, _say)


def _measure(fields: Mapping[str, Any], candidates: Sequence[Candidate], directory: Path) -> dict[Candidate, float]:
    """Examples per second of each candidate."""
    measured = {}
    for strategy, layout, batch in candidates:
        changed = {**fields, "strategy": strategy, "layout": layout, "batch": batch}
        (result,) = paceline.run(**changed, stop=f"seconds={_SWEEP_S}", runs=str(directory))
        measured[strategy, layout, batch] = result.examples_per_s
    return measured


def _words(candidate: Candidate) -> str:
    strategy, layout, batch = candidate
    return f"{strategy} '{layout}' batch {batch}"


def _say(line: str) -> None:
    console.print(f"  {line}", style="dim")
