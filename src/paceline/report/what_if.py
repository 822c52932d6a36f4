"""The section that lets readers change link, workers and batch: predictions from the runs of the report."""

from collections.abc import Mapping, Sequence

from paceline.analyze.repeats import Group
from paceline.errors import PacelineError
from paceline.page.blocks import Block, Text, WhatIf, WhatIfRun
from paceline.prediction.grid import MeasuredConfiguration, WhatIfGrid, what_if_grid
from paceline.prediction.observe import Observed, observe
from paceline.present import labels
from paceline.report.best_configuration import BestConfigurationRow
from paceline.report.selection import select_runs
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import as_store_errors

REPORT_BUDGET_S = 4.0
"""CPU seconds of predicting for a report file, besides reading the runs."""
_MOST_RUNS = 16
"""Runs that predictions are made from: those that the report shows in detail, and others."""
_MOST_STEPS = 3_000_000
"""Steps of all these runs together: reading more would take long."""


def what_if_blocks(
    groups: Sequence[Group],
    best: Sequence[BestConfigurationRow],
    paths: Mapping[str, RunPaths],
    budget_s: float = REPORT_BUDGET_S,
) -> list[Block]:
    """The predictions around the best configuration; a sentence if they are not possible, and nothing without training.

    `paths` has the directory of each run.
    """
    winners = [row.winner for row in best]
    selected = sorted(
        (one for one in select_runs(groups, best, _MOST_RUNS) if one.result.batch),
        key=lambda one: winners.index(one.title) if one.title in winners else len(winners),
    )
    candidates = [one.result for one in selected]
    if not candidates:
        return []
    observed, reasons = _observe(candidates, paths)
    for base in observed:
        try:
            with as_store_errors(base.run):
                return [what_if_block(what_if_grid(base, observed, budget_s), base)]
        except PacelineError as error:
            reasons.append(str(error))
    return [Text(text=f"No prediction for other settings is possible: {reasons[0]}.", tone="soft")]


def _observe(results: Sequence[Result], paths: Mapping[str, RunPaths]) -> tuple[list[Observed], list[str]]:
    """The runs that can be used, the best configuration first, and why others cannot."""
    observed, reasons, steps = [], list[str](), 0
    for result in results:
        steps += sum(worker.steps for worker in result.workers)
        if steps > _MOST_STEPS:
            reasons.append(f"{result.run} has too many steps to read them for a report; paceline predict does")
            break
        try:
            with as_store_errors(result.run):
                observed.append(observe(paths[result.dir]))
        except PacelineError as error:
            reasons.append(str(error))
    return observed, reasons


def what_if_block(grid: WhatIfGrid, base: Observed) -> WhatIf:
    return WhatIf(
        key="what-if",
        title=f"Predicted throughput around {base.run}",
        caption=f"Simulated from {base.run} ({base.workload}, {base.engine}, {base.setup.strategy.name}) and the other "
        "runs of the same workload and engine in this report. The band is the 80 % interval. Everything but link, "
        "workers and batch stays as it was in this run.",
        base=_run(grid.base),
        links=grid.links if any(grid.links) else (),
        workers=grid.workers,
        batches=grid.batches,
        points=[
            None
            if point is None
            else (
                _short(point.updates_per_s),
                _short(point.low),
                _short(point.high),
                _short(point.examples_per_update),
                labels.cause(point.cause),
            )
            for point in grid.points
        ],
        measured=[_run(one) for one in grid.measured],
    )


def _run(one: MeasuredConfiguration) -> WhatIfRun:
    return WhatIfRun(
        link=one.link,
        workers=one.workers,
        batch=one.batch,
        updates=_short(one.updates_per_s),
        examples=_short(one.examples_per_s),
        run=one.run,
    )


def _short(value: float) -> float:
    return float(f"{value:.4g}")
