"""Time to a target, from curves of runs."""

import pytest

from paceline.errors import PredictError
from paceline.forecast import plan_specs
from paceline.plan.place import RunPlan
from paceline.prediction.observe import staleness_bound, sync_every
from paceline.prediction.plan_setup import setup_for
from paceline.prediction.predictor import Interval, Prediction
from paceline.prediction.results import Goal
from paceline.prediction.target import Curve, read_target, time_to_target
from paceline.spec.stop import StopRule
from paceline.store.verdict import AccountedTime

RATE = Interval(value=100.0, low=80.0, high=125.0)
PREDICTION = Prediction(
    updates_per_s=RATE,
    examples_per_s=RATE.scaled(200),
    bottleneck=AccountedTime(cause="compute", where="", share=0.5),
    rests_on=("run-1",),
    not_measured=(),
    log_spread=0.17,
)
CURVE = Curve(
    run="curve-1",
    workload="logreg",
    examples_per_update=200,
    lr=None,
    optimizer=None,
    synchronous=True,
    evaluations=((100, 0.9, 0.7), (200, 0.5, 0.85), (300, 0.4, 0.91), (400, 0.41, 0.9)),
)


def plan(strategy: str = "ps-sync", batch: int = 100) -> RunPlan:
    (found,) = plan_specs({"workload": "logreg", "strategy": strategy, "layout": "p w w", "batch": batch})
    return found


def test_seconds_are_the_updates_of_the_curve_over_the_predicted_rate() -> None:
    found = time_to_target(plan(), PREDICTION, read_target("accuracy=0.9"), [CURVE])
    assert found is not None
    assert (found.updates, found.curve_of) == (300, "curve-1")
    assert (found.seconds.low, found.seconds.value, found.seconds.high) == pytest.approx((2.4, 3.0, 3.75))


def test_a_loss_is_a_target_too() -> None:
    found = time_to_target(plan(), PREDICTION, read_target("loss=0.6"), [CURVE])
    assert found is not None
    assert found.updates == 200


def test_another_number_of_examples_per_update_is_refused_with_the_run_to_make() -> None:
    with pytest.raises(PredictError, match=r"updates of 100 examples logreg needs for accuracy=0\.9: make one, e\.g\."):
        time_to_target(plan(batch=50), PREDICTION, read_target("accuracy=0.9"), [CURVE])


def test_only_the_pace_of_asynchronous_strategies_is_predicted() -> None:
    assert time_to_target(plan("ps-async"), PREDICTION, read_target("accuracy=0.9"), [CURVE]) is None


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("examples/s", Goal("examples/s")),
        ("updates/s", Goal("updates/s")),
        ("time-to-accuracy=0.97", Goal("time-to-accuracy", StopRule("accuracy", 0.97))),
        ("time-to-loss=0.1", Goal("time-to-loss", StopRule("loss", 0.1))),
    ],
)
def test_goals_are_read(text: str, goal: Goal) -> None:
    assert Goal.parse(text) == goal


@pytest.mark.parametrize("text", ["speed", "time-to-accuracy", "examples/s=5", ""])
def test_other_goals_are_refused(text: str) -> None:
    with pytest.raises(PredictError, match="must be examples/s, updates/s, time-to-accuracy=X or time-to-loss=X"):
        Goal.parse(text)


def test_a_layout_loses_its_servers_for_strategies_without_any() -> None:
    plans = plan_specs({"workload": "logreg", "strategy": ["ps-sync", "allreduce"], "layout": ["p w w", "pw w"]})
    assert [(one.strategy.name, str(one.layout)) for one in plans] == [
        ("ps-sync", "p w w"),
        ("ps-sync", "pw w"),
        ("allreduce", "w w"),
    ]


def test_compressed_exchanges_are_not_predicted() -> None:
    (plan,) = plan_specs({"workload": "logreg", "strategy": "allreduce", "layout": "w w", "compress": "fp16"})
    with pytest.raises(PredictError, match="compress=fp16 cannot be predicted: measure it with paceline run"):
        setup_for(plan, [])


def test_options_of_a_strategy_are_part_of_the_simulated_configuration() -> None:
    (plan,) = plan_specs({"workload": "logreg", "strategy": "local-sgd", "layout": "w w", "sync_every": 50})
    assert sync_every(plan.spec, plan.strategy) == 50
    (plan,) = plan_specs({"workload": "logreg", "strategy": "ssp", "layout": "p w w"})
    assert (sync_every(plan.spec, plan.strategy), staleness_bound(plan.spec, plan.strategy)) == (1, 3)
    (plan,) = plan_specs({"workload": "logreg", "strategy": "ps-async", "layout": "p w w"})
    assert staleness_bound(plan.spec, plan.strategy) is None


def test_a_strategy_without_a_protocol_is_refused_before_anything_is_predicted() -> None:
    with pytest.raises(PredictError, match="strategy bsp-sgd cannot be predicted: its descriptor names no"):
        plan_specs({"workload": "logreg", "engine": "spark", "strategy": "bsp-sgd", "layout": "p w w"})
