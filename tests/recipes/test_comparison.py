"""Comparison of made-up results with made-up published values."""

import pytest

from paceline.recipes.comparison import Cell, compare_with_published, ratios
from paceline.recipes.notes import claim_notes, ratio_notes, reduction_notes
from paceline.recipes.recipe import Claim, Column, Key, Recipe


def recipe(**fields: object) -> Recipe:
    given = {
        "name": "report9-table1",
        "spec": {"workload": "logreg"},
        "title": "time by mode",
        "keys": (Key("Mode", "layout", {"pw w": "Cluster", "pw w w": "Cluster2"}), Key("Batch", "batch")),
        "columns": (Column("Time (s)", "train_s"),),
        "rows": (("Cluster2", 10.0, 30.0), ("Cluster", 10.0, (4.0, 6.0)), ("Cluster", 20.0, 8.0)),
    }
    return Recipe(**{**given, **fields})  # type: ignore[arg-type]


def observation(layout: str, batch: str, seconds: float | None) -> dict[str, str | float | None]:
    return {"layout": layout, "batch": batch, "train_s": seconds}


RUNS = [
    observation("pw w", "10", 2.0),
    observation("pw w", "10", 4.0),
    observation("pw w w", "10", 15.0),
    observation("pw w", "40", 1.0),
]


def test_rows_are_in_the_published_order_with_means_over_repeats() -> None:
    table = compare_with_published(recipe(), RUNS[:3])
    assert [row.keys for row in table.rows] == [("Cluster2", "10"), ("Cluster", "10")]
    assert [row.cells[0].ours for row in table.rows] == [15.0, 3.0]
    assert [row.cells[0].theirs for row in table.rows] == [30.0, (4.0, 6.0)]
    assert table.missing_rows == 1


def test_rows_that_were_not_published_keep_our_order() -> None:
    table = compare_with_published(recipe(), RUNS)
    assert [row.keys for row in table.rows] == [("Cluster", "10"), ("Cluster2", "10"), ("Cluster", "40")]
    assert [row.cells[0].theirs for row in table.rows] == [(4.0, 6.0), 30.0, None]


def test_values_without_a_label_in_the_recipe_are_left_out() -> None:
    assert not compare_with_published(recipe(), [observation("p w w w", "10", 1.0)]).rows


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio"),
    [(15.0, 30.0, 0.5), (5.0, (4.0, 6.0), 1.0), (2.0, (4.0, 6.0), 0.5), (12.0, (4.0, 6.0), 2.0), (None, 3.0, None),
     (1.0, None, None), (1.0, "a third", None), (1.0, 0.0, None)],
)  # fmt: skip
def test_a_ratio_is_to_the_nearest_published_value(
    ours: float | None, theirs: float | str | tuple[float, float] | None, ratio: float | None
) -> None:
    assert Cell(ours, theirs).ratio == ratio


def test_ratios_cover_all_rows_and_missing_rows_are_counted() -> None:
    one = recipe()
    table = compare_with_published(one, RUNS)
    assert ratios(one, table) == {"Time (s)": (0.5, 0.75)}
    assert ratio_notes(one, table, full=False) == [
        "Our values relative to the published ones: Time (s) 0.50–0.75.",
        "Published rows without a run here: 1 of 3; --full includes them.",
    ]


def claim(is_: str, **than: str) -> Claim:
    return Claim(says="more workers, more time", column="Time (s)", of={"Mode": "Cluster2"}, than=than, is_=is_)  # type: ignore[arg-type]


@pytest.mark.parametrize(("is_", "holds"), [("more", True), ("less", False), ("same", False)])
def test_a_claim_is_checked_on_rows_that_are_otherwise_equal(is_: str, holds: bool) -> None:
    table = compare_with_published(recipe(claims=(claim(is_, Mode="Cluster"),)), RUNS)
    assert (table.claims[0].holds, table.claims[0].ratios) == (holds, (5.0,))
    assert claim_notes(table) == [
        f"Published claim: more workers, more time. Here: {'confirmed' if holds else 'not confirmed'}, ratio 5.00."
    ]


def test_a_difference_within_the_noise_confirms_no_claim() -> None:
    nearly_equal = [observation("pw w", "10", 10.0), observation("pw w w", "10", 10.1)]
    holds = {
        is_: compare_with_published(recipe(claims=(claim(is_, Mode="Cluster"),)), nearly_equal).claims[0].holds
        for is_ in ("more", "same")
    }
    assert holds == {"more": False, "same": True}


def test_a_claim_without_rows_is_not_tested() -> None:
    table = compare_with_published(recipe(claims=(claim("more", Mode="Single"),)), RUNS)
    assert table.claims[0].holds is None
    assert claim_notes(table) == ["Published claim: more workers, more time. Not tested by these runs."]


def test_settings_of_the_small_form_that_differ_are_noted() -> None:
    one = recipe(spec={"workload": "logreg", "batch": [10, 20], "stop": "steps=5"}, full={"stop": {"steps": 50}})
    small, full = one.experiments(full=False), one.experiments(full=True)
    assert reduction_notes(small, full) == ["Smaller than the published experiment: stop steps=5 instead of steps=50."]
    assert reduction_notes(full, full) == []


def test_further_experiments_change_the_spec_and_user_settings_override_all() -> None:
    one = recipe(
        spec={"workload": "logreg", "strategy": "ps-sync", "stop": "steps=5"},
        full={"stop": "steps=50"},
        also=({"strategy": "single", "full": {"batch": 7}},),
    )
    first, second = one.experiments(full=True, changes={"engine": "tensorflow"})
    assert [(part.run.strategy, part.run.batch) for part in (first, second)] == [("ps-sync", 100), ("single", 7)]
    assert {str(part.run.stop[0]) for part in (first, second)} == {"steps=50"}
    assert {part.run.engine for part in (first, second)} == {"tensorflow"}
