"""The soak draws runs that can be made, the same ones for the same seed, and would see what is wrong."""

from random import Random
from typing import Any

import pytest
from soak.invariants import counted_right, ended_right
from soak.scenario import Scenario, draw

from paceline import pipeline
from paceline.spec.load import experiment


def scenarios(seed: int, count: int = 200) -> list[Scenario]:
    random = Random(seed)
    return [draw(random, netns=True) for _ in range(count)]


def test_the_same_seed_draws_the_same_scenarios_and_another_others() -> None:
    assert scenarios(1) == scenarios(1)
    assert scenarios(1) != scenarios(2)
    kinds = {fault.split()[0] for one in scenarios(1) for fault in one.faults}
    assert kinds == {"kill", "freeze", "cut", "slow", "limit"}
    assert {one.end for one in scenarios(1)} == {"its own", "interrupt", "kill"}


@pytest.mark.netns
def test_every_scenario_is_one_that_can_be_run() -> None:
    for one in scenarios(3, 60):
        fields = {
            "workload": "logreg", "engine": one.engine, "strategy": one.strategy, "layout": one.layout,
            "hosts": one.hosts, "stop": f"steps={one.steps}", "checkpoint_every": one.checkpoint_every,
            "on_failure": one.on_failure, "fault": list(one.faults),
        }  # fmt: skip
        (plan,) = pipeline.plan(experiment({key: value for key, value in fields.items() if value is not None}))
        assert plan.update_limit == one.steps


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
        (1, {"status": "failed", "reason": "w1 on h2 was killed by SIGKILL"}, "it ended failed"),
        (1, {}, "exit code 1 for a run that ended ok"),
        (0, {"updates": 999}, "999 updates, not 1000"),
        (0, {"workers": [{"steps": 500}, {"steps": 498}]}, "998 together, not 1000"),
    ],
)
def test_what_is_wrong_is_told(code: int, changes: dict[str, Any], line: str) -> None:
    scenario = Scenario(
        engine="torch", strategy="ps-async", layout="pw w", hosts="local", steps=1000, momentum=0.0,
        checkpoint_every=None, on_failure=None, faults=("kill w1 at 1s",), end="its own",
    )  # fmt: skip
    result = result_of(**changes)
    told = [*ended_right(scenario, code, result, resumed=False), *counted_right(scenario, result)]
    assert any(line in one for one in told), told


def test_a_run_that_went_as_it_should_is_not_complained_of() -> None:
    (one,) = [one for one in scenarios(1) if one.strategy == "ps-async" and one.survives and one.deaths][:1]
    result = result_of(updates=one.steps, workers=[{"steps": one.steps - 1}, {"steps": 1}])
    assert [*ended_right(one, 0, result, resumed=False), *counted_right(one, result)] == []
