from pathlib import Path
from typing import Any

import msgspec

from paceline.analyze.repeats import Group
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from report.stored import result_of, store_run


def changed(result: Result, **changes: Any) -> Result:
    return msgspec.structs.replace(result, **changes)


def by_goal(found: list[BestConfigurationRow]) -> dict[str, BestConfigurationRow]:
    return {row.goal: row for row in found}


def test_each_goal_has_a_best_configuration(sweep: list[RunPaths]) -> None:
    from paceline.report.build import build

    found = by_goal(build("sweep", sweep).best_configurations)
    assert "most updates/s" not in found  # Updates have different numbers of examples.
    assert found["most examples/s"].winner == "ps-async 'pw w w' batch 200"
    assert "faster than" in found["most examples/s"].lead
    assert "[" in found["most examples/s"].value


def test_a_lead_that_is_not_significant_is_stated_as_such(runs: Path) -> None:
    base = result_of(store_run(runs))
    slow = Group(tuple(changed(base, batch=10, updates_per_s=rate) for rate in (100.0, 120.0, 110.0)))
    fast = Group(tuple(changed(base, batch=20, updates_per_s=rate) for rate in (105.0, 121.0, 112.0)))
    significant = Group(tuple(changed(base, batch=20, updates_per_s=rate) for rate in (305.0, 321.0, 310.0)))
    assert (
        "not significantly different from batch 10"
        in by_goal(best_configuration_rows([slow, fast]))["most updates/s"].finding
    )
    assert (
        "not significantly different"
        not in by_goal(best_configuration_rows([slow, significant]))["most updates/s"].finding
    )


def test_significance_of_single_runs_is_unknown(runs: Path) -> None:
    base = result_of(store_run(runs))
    found = by_goal(best_configuration_rows([Group((base,)), Group((changed(base, batch=7, updates_per_s=1.0),))]))
    assert found["most updates/s"].winner == "batch 100"
    assert "n=1: significance unknown" in found["most updates/s"].finding


def test_configurations_that_missed_the_target_are_counted(runs: Path) -> None:
    base = result_of(store_run(runs))
    others = [Group((changed(base, batch=batch),)) for batch in (1, 2)]
    missed = Group((changed(base, batch=3, reached=None),))
    finding = by_goal(best_configuration_rows([*others, missed]))["fastest to loss 0.3"].finding
    assert "1 of 3 configurations did not reach it" in finding


def test_a_single_configuration_has_values_but_no_second_best(runs: Path) -> None:
    found = best_configuration_rows([Group((result_of(store_run(runs)),))])
    assert {"updates/s", "examples/s"} <= set(by_goal(found))
    assert {one.second for one in found} == {"-"}


def test_failed_runs_are_never_the_best(runs: Path) -> None:
    assert best_configuration_rows([Group((result_of(store_run(runs, end=("failed", "w0 died"))),))]) == []
