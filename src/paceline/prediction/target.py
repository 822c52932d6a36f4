"""Time to a loss or an accuracy: updates from a measured curve of the same updates, divided by the predicted rate."""

from collections.abc import Sequence

import msgspec
import polars as pl

from paceline.analyze.load import load_result
from paceline.errors import PredictError
from paceline.plan.place import RunPlan
from paceline.prediction.predictor import Interval, Prediction
from paceline.spec.optimizer import describe
from paceline.spec.stop import TARGETS, StopRule
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The evaluations of a run."""

    run: str
    workload: str
    examples_per_update: int
    lr: float | None
    optimizer: str | None
    """As the result describes it; None in runs of older versions."""
    synchronous: bool
    evaluations: tuple[tuple[int, float | None, float | None], ...]
    """Update, loss and accuracy on the test set."""

    def updates_to(self, target: StopRule) -> int | None:
        """The first evaluated update at which the target was met; None if it never was."""
        for update, loss, accuracy in self.evaluations:
            if target.kind == "loss" and loss is not None and loss <= target.value:
                return update
            if target.kind == "accuracy" and accuracy is not None and accuracy >= target.value:
                return update
        return None


class TargetPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted time of training to a target."""

    target: str
    updates: int
    seconds: Interval
    curve_of: str
    """The run whose curve says how many updates are needed."""


def read_target(text: str) -> StopRule:
    """`accuracy=0.97` or `loss=0.1`; PredictError for other rules."""
    rule = StopRule.parse(text)
    if rule.kind not in TARGETS:
        raise PredictError(f"target '{text}': must be loss=X or accuracy=X, e.g. accuracy=0.97")
    return rule


def read_curve(paths: RunPaths) -> Curve | None:
    """The evaluations of a stored run; None if it has none."""
    result, stored = load_result(paths), StoredRun(paths)
    evaluations = stored.collect(
        stored.scan_steps().filter((pl.col("kind") == "eval") & ~pl.col("undone")).sort("update")
    )
    if not evaluations.height or result.status != "ok":
        return None
    rows = evaluations.select("update", pl.col("loss", "accuracy").fill_nan(None)).iter_rows()
    return Curve(
        run=paths.id,
        workload=result.title,
        examples_per_update=result.examples_per_update,
        lr=result.lr,
        optimizer=result.optimizer,
        synchronous=result.synchronous,
        evaluations=tuple(rows),
    )


def time_to_target(
    plan: RunPlan, prediction: Prediction, target: StopRule, curves: Sequence[Curve]
) -> TargetPrediction | None:
    """The time to a target; None for asynchronous strategies, whose updates also depend on their staleness.

    PredictError if no run with the same examples per update and optimizer reached the target.
    """
    if not plan.strategy.synchronous:
        return None
    examples, optimizer = plan.spec.batch * plan.gradients_per_update, describe(plan.optimizer)
    same = [
        curve
        for curve in curves
        if curve.workload == plan.title
        and curve.synchronous
        and curve.examples_per_update == examples
        and curve.optimizer in (None, optimizer)
        and curve.lr in (None, plan.optimizer.lr)
    ]
    for curve in same:
        if updates := curve.updates_to(target):
            rates = prediction.updates_per_s
            return TargetPrediction(
                target=str(target),
                updates=updates,
                seconds=Interval(value=updates / rates.value, low=updates / rates.high, high=updates / rates.low),
                curve_of=curve.run,
            )
    raise PredictError(
        f"no run says how many updates of {examples} examples {plan.title} needs for {target}: make one, e.g. "
        f"paceline run {plan.spec.workload} --engine {plan.spec.engine} --strategy {plan.strategy.name} "
        f"--layout '{plan.layout}' --batch {plan.spec.batch} --stop {target}"
    )
