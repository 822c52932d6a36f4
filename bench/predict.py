"""The blind evaluation of predictions: configurations drawn by seed, predicted from short profiles, and measured."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median

import msgspec
from rich.table import Table

from bench.measure import console
from bench.predict_runs import DISTURBED_CORES, make_missing
from paceline.errors import PacelineError
from paceline.prediction.observe import Observed, observe
from paceline.prediction.predictor import Prediction, Predictor
from paceline.store.paths import all_runs

DIRECTORY = Path("runs/bench-predict")
_MORE_RUNS = 5
"""Runs of the same workload and engine that are added in the second part of the evaluation."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was predicted and measured."""

    run: Observed
    first: Prediction
    """From the profile only."""
    later: Prediction | None
    """With some more runs of other configurations; None if there are not enough."""


def predict(rounds: int, directory: Path = DIRECTORY) -> None:
    """Make the runs that are missing, and print how far their predictions are off."""
    for part in ("profile", "blind"):
        make_missing(part, directory / part, seconds=math.inf)
    report(evaluate(read(directory / "profile"), read(directory / "blind")))


def read(directory: Path) -> list[Observed]:
    """The least disturbed run of each configuration."""
    best: dict[str, Observed] = {}
    for paths in all_runs(directory):
        try:
            run = observe(paths)
        except PacelineError as error:
            console.print(f"  left out: {error}", style="dim")
            continue
        name = "-".join(run.run.split("-")[:2])
        if name not in best or run.background_cores < best[name].background_cores:
            best[name] = run
    return sorted(best.values(), key=lambda run: int(run.run.split("-")[1]))


def evaluate(profile: Sequence[Observed], blind: Sequence[Observed]) -> list[Outcome]:
    """The predictions of all blind runs, each under the background load that was measured during the run."""
    outcomes = []
    usable = list(blind)
    first: dict[tuple[str, str], Predictor] = {}
    for number, run in enumerate(usable):
        setup = run.setup
        key = run.workload, run.engine
        if key not in first:
            first[key] = Predictor(*key, run.transport, profile)
        others = [one for one in usable if (one.workload, one.engine) == key and one is not run]
        later = None
        if len(others) >= _MORE_RUNS:
            more = Random(number).sample(others, _MORE_RUNS)
            later = Predictor(*key, run.transport, [*profile, *more]).predict(setup)
        outcomes.append(Outcome(run=run, first=first[key].predict(setup), later=later))
    return outcomes


def report(outcomes: Sequence[Outcome]) -> None:
    """Print a row for each configuration, then the errors and how many values are in their intervals."""
    table = Table(
        *("workload", "engine", "strategy", "tasks", "batch", "link", "cpus", "background", "measured", "predicted"),
        "error",
        *("80 % interval", f"error after {_MORE_RUNS} runs"),
        title="Predictions of configurations that were never run, in updates/s",
        title_justify="left",
        box=None,
    )
    for one in outcomes:
        table.add_row(*_cells(one))
    console.print(table)
    quiet = [one for one in outcomes if one.run.background_cores < DISTURBED_CORES]
    for name, pairs in (
        ("never run", [(one.run, one.first) for one in outcomes]),
        ("never run, without background load", [(one.run, one.first) for one in quiet]),
        (f"after {_MORE_RUNS} runs", [(one.run, one.later) for one in outcomes if one.later]),
    ):
        _summarize(name, pairs)
        for engine in dict.fromkeys(run.engine for run, _ in pairs):
            _summarize(f"{name}, {engine}", [(run, found) for run, found in pairs if run.engine == engine])


def _cells(one: Outcome) -> list[str]:
    setup, rate = one.run.setup, one.first.updates_per_s
    limits = setup.limits.values()
    words: dict[str, str] = {}
    for place in setup.places:
        words[place.host] = words.get(place.host, "") + place.role[0]
    links = {f"{limit.link_bits_s / 1e6:g}mbit" if limit.link_bits_s else "-" for limit in limits}
    return [
        *(one.run.workload, one.run.engine, setup.strategy.name, " ".join(words.values()), str(setup.batch)),
        *(" ".join(sorted(links)), " ".join(dict.fromkeys(f"{limit.cpus or '-'}" for limit in limits))),
        f"{one.run.background_cores:.1f}",
        *(f"{one.run.updates_per_s:.2f}", f"{rate.value:.2f}", f"{_error(one.run, one.first):+.1%}"),
        f"{rate.low:.2f} to {rate.high:.2f}" + ("" if _covers(one.run, one.first) else " (outside)"),
        f"{_error(one.run, one.later):+.1%}" if one.later else "-",
    ]


def _error(run: Observed, found: Prediction) -> float:
    return found.updates_per_s.value / run.updates_per_s - 1


def _covers(run: Observed, found: Prediction) -> bool:
    return found.updates_per_s.low <= run.updates_per_s <= found.updates_per_s.high


def _summarize(name: str, pairs: Sequence[tuple[Observed, Prediction]]) -> None:
    if not pairs:
        return
    errors = sorted(abs(_error(run, found)) for run, found in pairs)
    covered = sum(_covers(run, found) for run, found in pairs) / len(pairs)
    p90 = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    console.print(
        f"  {name}: {len(pairs)} configurations, median error {median(errors):.1%}, 90 % below {p90:.1%}, "
        f"{covered:.0%} in their 80 % interval"
    )
