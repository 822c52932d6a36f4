"""Conditions in which new runs differ from the earlier runs of their sweep."""

from typing import Any

import pytest

from analyze.made import made
from paceline.analyze.conditions import changed_conditions

EARLIER = [made("s-1", settings={"stop": ["steps=300"], "link": "1gbit"}, batch=batch) for batch in (10, 100)]
SAME = {"workload": "logreg", "batch": 10, "seed": 1, "stop": ["steps=300"], "link": "1gbit", "hosts": "local"}


@pytest.mark.parametrize(
    ("changes", "lists", "found"),
    [
        ({}, (), {}),
        ({"stop": ["steps=200"]}, (), {"stop": ("steps=300", "steps=200")}),
        ({"seed": 2}, (), {"seed": ("1", "2")}),
        ({"link": None}, (), {"link": ("1gbit", "-")}),
        ({"hosts": "netns"}, (), {"hosts": ("local", "netns")}),
        # A list of the new runs, and what sweeps are made to compare, are no conditions.
        ({"link": "10mbit"}, ("link",), {}),
        ({"batch": 50, "engine": "tensorflow", "strategy": "ps-async"}, (), {}),
    ],
)
def test_only_conditions_that_differ_are_found(
    changes: dict[str, Any], lists: tuple[str, ...], found: dict[str, tuple[str, str]]
) -> None:
    assert changed_conditions(EARLIER, [SAME | changes], lists) == found


def test_values_of_an_earlier_list_are_no_conditions_but_stop_rules_always_are() -> None:
    earlier = [made(f"s-{seed}", seed=seed, stop=[f"steps={seed}00"]) for seed in (1, 2)]
    new = {"seed": 3, "stop": ["steps=100"]}
    assert changed_conditions(earlier, [new], ()) == {"stop": ("steps=100 or steps=200", "steps=100")}
    assert changed_conditions([], [new], ()) == {}


def test_a_setting_that_does_not_change_results_is_no_condition() -> None:
    assert changed_conditions(EARLIER, [SAME | {"trusted_network": False}], ()) == {}
