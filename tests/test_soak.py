"""The soak test draws valid scenarios, the same ones for the same seed, and detects violations."""

from random import Random
from typing import Any

import pytest
from soak.invariants import check_counts, check_end
from soak.scenario import Scenario, draw_scenario

from paceline import pipeline
from paceline.engines.registry import engines
from paceline.spec.load import experiment, parse_assignments
from paceline.spec.optimizer import KINDS


def scenarios(seed: int, count: int = 200) -> list[Scenario]:
    random = Random(seed)
    return [draw_scenario(random, netns=True) for _ in range(count)]


def test_same_seed_draws_the_same_scenarios() -> None:
    assert scenarios(1) == scenarios(1)
    assert scenarios(1) != scenarios(2)
    kinds = {fault.split()[0] for scenario in scenarios(1) for fault in scenario.faults}
    assert kinds == {"kill", "freeze", "cut", "slow", "limit"}
    assert {scenario.end for scenario in scenarios(1)} == {"normal", "interrupt", "kill"}


def test_all_strategies_and_optimizers_of_an_engine_are_drawn() -> None:
    for engine in ("torch", "tensorflow"):
        cells = [scenario for scenario in scenarios(1, 600) if scenario.engine == engine]
        assert {scenario.strategy for scenario in cells} == engines()[engine].strategies
        assert {scenario.optimizer.partition(":")[0] for scenario in cells} == set(KINDS)


@pytest.mark.netns
def test_every_scenario_can_be_planned() -> None:
    for scenario in scenarios(3, 60):
        fields = {
            "workload": "logreg", "engine": scenario.engine, "strategy": scenario.strategy, "layout": scenario.layout,
            "hosts": scenario.hosts, "stop": f"steps={scenario.steps}", "checkpoint_every": scenario.checkpoint_every,
            "on_failure": scenario.on_failure, "fault": list(scenario.faults),
            **parse_assignments(list(scenario.settings)),
        }  # fmt: skip
        (plan,) = pipeline.plan(experiment({key: value for key, value in fields.items() if value is not None}))
        assert plan.update_limit == scenario.steps


def result_of(**changes: Any) -> dict[str, Any]:
    steps = {"steps": 500}
    fields = {
        "run": "none-1", "status": "ok", "reason": None, "updates": 1000, "incidents": [],
        "workers": [steps, steps], "faults": [{"what": "kill w1 at 1s", "at_s": 1.0}],
    }  # fmt: skip
    return {**fields, **changes}


@pytest.mark.parametrize(
    ("code", "changes", "line"),
    [
        (1, {"status": "failed", "reason": "w1 on h2 was killed by SIGKILL"}, "the run ended failed"),
        (1, {}, "exit code 1 for a run that ended ok"),
        (0, {"updates": 999}, "999 updates, not 1000"),
        (0, {"workers": [{"steps": 500}, {"steps": 498}]}, "998 together, not 1000"),
    ],
)
def test_violations_are_reported(code: int, changes: dict[str, Any], line: str) -> None:
    scenario = Scenario(
        engine="torch", strategy="ps-async", layout="pw w", hosts="local", steps=1000, optimizer="sgd",
        checkpoint_every=None, on_failure=None, faults=("kill w1 at 1s",), end="normal",
    )  # fmt: skip
    result = result_of(**changes)
    violations = [*check_end(scenario, code, result, resumed=False), *check_counts(scenario, result)]
    assert any(line in violation for violation in violations), violations


def test_correct_run_has_no_violations() -> None:
    scenario = next(
        drawn for drawn in scenarios(1) if drawn.strategy == "ps-async" and drawn.survives and drawn.killed_tasks
    )
    result = result_of(updates=scenario.steps, workers=[{"steps": scenario.steps - 1}, {"steps": 1}])
    assert [*check_end(scenario, 0, result, resumed=False), *check_counts(scenario, result)] == []
