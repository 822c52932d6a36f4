"""How the deadline for the start of a run follows from its tasks and from the cores of its hosts."""

from typing import Any

import pytest

from paceline.available import catalog
from paceline.control.startup_deadline import STARTUP_DEADLINE_S, startup_deadline_s
from paceline.plan.place import RunPlan, place
from paceline.spec.load import experiment
from paceline.spec.sweep import expand


def planned(**fields: Any) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "batch": 10, **fields}))
    return place(spec, catalog())


def deadline_s(cores: int, **fields: Any) -> float:
    plan = planned(**fields)
    return startup_deadline_s(plan, dict.fromkeys(plan.layout.hosts, cores))


@pytest.mark.parametrize("layout", ["w" * 100, " ".join(["ww"] * 50)])
def test_a_hundred_workers_on_two_cores_have_five_seconds_each(layout: str) -> None:
    """Whether they are on one host or on fifty hosts of one machine."""
    assert deadline_s(2, strategy="allreduce", layout=layout) >= STARTUP_DEADLINE_S + 100 * 5


def test_the_deadline_grows_with_the_tasks_of_each_core() -> None:
    alone, many = (deadline_s(2, strategy="allreduce", layout=layout) for layout in ("w w", "w w w w w w"))
    assert STARTUP_DEADLINE_S < alone < many
    assert deadline_s(8, strategy="allreduce", layout="w w w w w w") < many


def test_a_host_with_a_fraction_of_a_core_has_that_much_more_time() -> None:
    limited = {"strategy": "allreduce", "layout": "w w", "hosts": "netns"}
    assert deadline_s(2, **limited, cpus="0.5") == 2 * deadline_s(2, **limited, cpus="1")
    assert deadline_s(4, **limited, cpus="4") == deadline_s(4, **limited)


def test_one_core_is_assumed_until_the_agents_have_joined() -> None:
    plan = planned(strategy="allreduce", layout="ww w")
    assert startup_deadline_s(plan, {}) == deadline_s(1, strategy="allreduce", layout="ww w")
