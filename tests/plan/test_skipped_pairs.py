"""A sweep over engines and strategies leaves out the pairs that do not exist."""

import pytest

from paceline.errors import PlanError
from paceline.pipeline import plan, skipped_pairs
from paceline.spec.load import experiment


def test_pairs_that_do_not_exist_are_left_out() -> None:
    sweep = experiment(
        {"workload": "logreg", "engine": ["torch", "tensorflow", "spark"], "strategy": ["ps-sync", "bsp-sgd"]}
    )
    assert skipped_pairs(sweep) == [("torch", "bsp-sgd"), ("tensorflow", "bsp-sgd"), ("spark", "ps-sync")]


def test_pairs_of_installed_engines_are_planned() -> None:
    sweep = experiment({"workload": "logreg", "engine": ["torch", "tensorflow"], "strategy": ["ps-sync", "single"]})
    assert skipped_pairs(sweep) == []
    assert len(plan(sweep)) == 4


def test_a_single_strategy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PlanError, match="engine torch has no strategy lbfgs"):
        plan(experiment({"workload": "logreg", "engine": "torch", "strategy": "lbfgs"}))


def test_workers_without_parameters_cannot_evaluate() -> None:
    run = {"workload": "logreg", "engine": "spark", "strategy": "bsp-sgd", "eval_by": "workers"}
    with pytest.raises(PlanError, match="with bsp-sgd only the driver has the parameters: remove eval_by=workers"):
        plan(experiment(run))


@pytest.mark.parametrize("option", ["master=local[2]", "executor_memory=1g"])
def test_options_of_another_engine_are_refused(option: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(PlanError, match=f"engine torch has no option {name}: remove it, or use --engine spark"):
        plan(experiment({"workload": "logreg", "engine": "torch", name: value}))
