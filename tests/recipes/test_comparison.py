"""Ours compare_with_published theirs, on made-up figures."""

import pytest

from paceline.recipes.comparison import Cell, compare_with_published, ratios
from paceline.recipes.notes import asked, claims, compared
from paceline.recipes.recipe import Claim, Column, Key, Recipe


def recipe(**fields: object) -> Recipe:
    given = {
        "name": "report9-table1",
        "spec": {"workload": "logreg"},
        "title": "time by mode",
        "keys": (Key("Mode", "layout", {"pw w": "Cluster", "pw w w": "Cluster2"}), Key("Batch", "batch")),
        "figures": (Column("Time (s)", "train_s"),),
        "rows": (("Cluster2", 10.0, 30.0), ("Cluster", 10.0, (4.0, 6.0)), ("Cluster", 20.0, 8.0)),
    }
    return Recipe(**{**given, **fields})  # type: ignore[arg-type]


def seen(layout: str, batch: str, seconds: float | None) -> dict[str, str | float | None]:
    return {"layout": layout, "batch": batch, "train_s": seconds}


RUNS = [seen("pw w", "10", 2.0), seen("pw w", "10", 4.0), seen("pw w w", "10", 15.0), seen("pw w", "40", 1.0)]


def test_rows_stand_as_published_and_repeats_are_averaged() -> None:
    made = compare_with_published(recipe(), RUNS[:3])
    assert [row.keys for row in made.rows] == [("Cluster2", "10"), ("Cluster", "10")]
    assert [row.cells[0].ours for row in made.rows] == [15.0, 3.0]
    assert [row.cells[0].theirs for row in made.rows] == [30.0, (4.0, 6.0)]
    assert made.left_out == 1


def test_with_rows_that_only_we_have_the_order_is_ours() -> None:
    made = compare_with_published(recipe(), RUNS)
    assert [row.keys for row in made.rows] == [("Cluster", "10"), ("Cluster2", "10"), ("Cluster", "40")]
    assert [row.cells[0].theirs for row in made.rows] == [(4.0, 6.0), 30.0, None]


def test_what_a_recipe_has_no_word_for_is_left_out() -> None:
    assert not compare_with_published(recipe(), [seen("p w w w", "10", 1.0)]).rows


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio"),
    [(15.0, 30.0, 0.5), (5.0, (4.0, 6.0), 1.0), (2.0, (4.0, 6.0), 0.5), (12.0, (4.0, 6.0), 2.0), (None, 3.0, None),
     (1.0, None, None), (1.0, "a third", None), (1.0, 0.0, None)],
)  # fmt: skip
def test_a_ratio_is_to_the_nearest_published_value(
    ours: float | None, theirs: float | str | tuple[float, float] | None, ratio: float | None
) -> None:
    assert Cell(ours, theirs).ratio == ratio


def test_ratios_span_all_rows_and_missing_rows_are_named() -> None:
    one = recipe()
    made = compare_with_published(one, RUNS)
    assert ratios(one, made) == {"Time (s)": (0.5, 0.75)}
    assert compared(one, made, full=False) == [
        "Ours as a multiple of the report's: Time (s) 0.50 to 0.75.",
        "1 of the report's 3 rows are not among these runs: --full makes them.",
    ]


def claim(is_: str, **than: str) -> Claim:
    return Claim(says="more workers, more time", figure="Time (s)", of={"Mode": "Cluster2"}, than=than, is_=is_)  # type: ignore[arg-type]


@pytest.mark.parametrize(("is_", "holds"), [("more", True), ("less", False), ("same", False)])
def test_a_claim_is_tested_where_all_else_is_equal(is_: str, holds: bool) -> None:
    made = compare_with_published(recipe(claims=(claim(is_, Mode="Cluster"),)), RUNS)
    assert (made.tested[0].holds, made.tested[0].ratios) == (holds, (5.0,))
    assert claims(made) == [f"The report finds: more workers, more time. Here: {'yes' if holds else 'no'}, 5.00 times."]


def test_a_difference_within_the_noise_bears_no_claim_out() -> None:
    alike = [seen("pw w", "10", 10.0), seen("pw w w", "10", 10.1)]
    verdicts = {
        is_: compare_with_published(recipe(claims=(claim(is_, Mode="Cluster"),)), alike).tested[0].holds
        for is_ in ("more", "same")
    }
    assert verdicts == {"more": False, "same": True}


def test_a_claim_without_rows_is_not_tested() -> None:
    made = compare_with_published(recipe(claims=(claim("more", Mode="Single"),)), RUNS)
    assert made.tested[0].holds is None
    assert claims(made) == ["The report finds: more workers, more time. Not tested by these runs."]


def test_what_the_small_form_asks_otherwise_is_told() -> None:
    one = recipe(spec={"workload": "logreg", "batch": [10, 20], "stop": "steps=5"}, full={"stop": {"steps": 50}})
    small, full = one.experiments(full=False), one.experiments(full=True)
    assert asked(small, full) == ["Smaller than the report's own size: stop steps=5 instead of steps=50."]
    assert asked(full, full) == []


def test_further_parts_change_the_spec_and_users_come_last() -> None:
    one = recipe(
        spec={"workload": "logreg", "strategy": "ps-sync", "stop": "steps=5"},
        full={"stop": "steps=50"},
        also=({"strategy": "single", "full": {"batch": 7}},),
    )
    first, second = one.experiments(full=True, changes={"engine": "tensorflow"})
    assert [(part.run.strategy, part.run.batch) for part in (first, second)] == [("ps-sync", 100), ("single", 7)]
    assert {str(part.run.stop[0]) for part in (first, second)} == {"steps=50"}
    assert {part.run.engine for part in (first, second)} == {"tensorflow"}
