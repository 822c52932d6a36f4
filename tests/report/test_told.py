from pathlib import Path
from typing import Any

import msgspec

from paceline.analyze.repeats import Group
from paceline.report.best_configuration import BestConfigurationRow, best_configuration_rows
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from report.stored import result_of, store_run


def of(result: Result, **changes: Any) -> Result:
    return msgspec.structs.replace(result, **changes)


def by_goal(found: list[BestConfigurationRow]) -> dict[str, BestConfigurationRow]:
    return {answer.goal: answer for answer in found}


def test_each_goal_has_its_winner(sweep: list[RunPaths]) -> None:
    from paceline.report.build import build

    found = by_goal(build("sweep", sweep).best_configurations)
    assert found["most updates/s"].winner == "ps-async 'pw w w' batch 50"
    assert found["most examples/s"].winner == "ps-async 'pw w w' batch 200"
    assert "faster than" in found["most examples/s"].by
    assert "±" in found["most examples/s"].figure


def test_a_difference_that_chance_may_explain_is_said_to_be_none(runs: Path) -> None:
    base = result_of(store_run(runs))
    slow = Group(tuple(of(base, batch=10, updates_per_s=pace) for pace in (100.0, 120.0, 110.0)))
    fast = Group(tuple(of(base, batch=20, updates_per_s=pace) for pace in (105.0, 121.0, 112.0)))
    sure = Group(tuple(of(base, batch=20, updates_per_s=pace) for pace in (305.0, 321.0, 310.0)))
    assert "no difference we can see" in by_goal(best_configuration_rows([slow, fast]))["most updates/s"].sentence
    assert "no difference we can see" not in by_goal(best_configuration_rows([slow, sure]))["most updates/s"].sentence


def test_single_runs_leave_room_for_chance(runs: Path) -> None:
    base = result_of(store_run(runs))
    found = by_goal(best_configuration_rows([Group((base,)), Group((of(base, batch=7, updates_per_s=1.0),))]))
    assert found["most updates/s"].winner == "batch 100"
    assert "may be chance" in found["most updates/s"].sentence


def test_who_missed_the_target_is_counted(runs: Path) -> None:
    base = result_of(store_run(runs))
    others = [Group((of(base, batch=batch),)) for batch in (1, 2)]
    missed = Group((of(base, batch=3, reached=None),))
    sentence = by_goal(best_configuration_rows([*others, missed]))["first at loss 0.3"].sentence
    assert "1 of 3 configurations did not get there" in sentence


def test_one_configuration_has_figures_but_no_rival(runs: Path) -> None:
    found = best_configuration_rows([Group((result_of(store_run(runs)),))])
    assert {"updates/s", "examples/s"} <= set(by_goal(found))
    assert {one.second for one in found} == {"-"}


def test_runs_that_failed_win_nothing(runs: Path) -> None:
    assert best_configuration_rows([Group((result_of(store_run(runs, end=("failed", "w0 died"))),))]) == []
