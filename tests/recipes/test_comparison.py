"""Comparison of made-up results with made-up published values."""

import pytest
from msgspec.structs import replace

from paceline.recipes.claims import fields_without_test
from paceline.recipes.comparison import Cell, compare_with_published, ratios
from paceline.recipes.notes import claim_notes, own_choices, ratio_notes, reduction_notes
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


def times(cluster: list[float], cluster2: list[float]) -> list[dict[str, str | float | None]]:
    """Repeats of a run in the modes Cluster and Cluster2."""
    return [
        observation(layout, "10", seconds)
        for layout, values in (("pw w", cluster), ("pw w w", cluster2))
        for seconds in values
    ]


def outcome(is_: str, cluster: list[float], cluster2: list[float], **fields: float) -> str:
    one = recipe(claims=(replace(claim(is_, Mode="Cluster"), **fields),))
    return compare_with_published(one, times(cluster, cluster2)).claims[0].outcome


@pytest.mark.parametrize(
    ("is_", "outcomes"),
    [
        ("more", ("holds", "does not hold", "does not hold", "cannot tell here")),
        ("less", ("does not hold", "holds", "does not hold", "cannot tell here")),
        ("same", ("does not hold", "does not hold", "holds", "cannot tell here")),
    ],
)
def test_a_claim_holds_if_the_confidence_interval_says_so(is_: str, outcomes: tuple[str, ...]) -> None:
    ten = [10.0, 10.02, 9.98]
    noisy = [6.0, 10.0, 16.0]
    assert tuple(outcome(is_, ten, values) for values in ([20.0, 20.2, 19.9], [5.0, 5.1, 4.9], ten, noisy)) == outcomes


@pytest.mark.parametrize("is_", ["more", "less", "same"])
def test_fewer_than_three_repeats_cannot_tell(is_: str) -> None:
    table = compare_with_published(recipe(claims=(claim(is_, Mode="Cluster"),)), RUNS)
    assert (table.claims[0].holds, [pair.value for pair in table.claims[0].pairs]) == (None, [5.0])
    assert claim_notes(table) == [
        "Published claim: more workers, more time. Cannot tell here (ratio 5.00): "
        "a claim needs 3 runs of every row, and these have only 1."
    ]


def test_a_claim_may_be_about_a_multiple() -> None:
    assert outcome("same", [10.0] * 3, [30.0, 30.1, 29.9], times=3.0) == "holds"
    assert outcome("same", [10.0] * 3, [20.0, 20.1, 19.9], times=3.0) == "does not hold"


def test_one_contradicting_pair_of_rows_refutes_a_claim() -> None:
    seconds = {("pw w", "10"): 1.0, ("pw w w", "10"): 2.0, ("pw w", "20"): 2.0, ("pw w w", "20"): 1.0}
    runs = [observation(*keys, value + noise) for keys, value in seconds.items() for noise in (0.0, 0.01, 0.02)]
    (checked,) = compare_with_published(recipe(claims=(claim("more", Mode="Cluster"),)), runs).claims
    assert (checked.outcome, checked.contradicted, len(checked.pairs)) == ("does not hold", 1, 2)


def test_several_records_of_one_run_are_no_repeats() -> None:
    records = [{**record, "run": f"r-{record['layout']}"} for record in times([1.0] * 3, [2.0] * 3)]
    (checked,) = compare_with_published(recipe(claims=(claim("more", Mode="Cluster"),)), records).claims
    assert checked.outcome == "cannot tell here"


def test_a_claim_without_rows_is_not_tested() -> None:
    table = compare_with_published(recipe(claims=(claim("more", Mode="Single"),)), RUNS)
    assert table.claims[0].holds is None
    assert claim_notes(table) == [
        "Published claim: more workers, more time. Not tested: there are no values to compare."
    ]


@pytest.mark.parametrize(
    ("stop", "untested"),
    [("steps=50", set()), ("steps=5", {"loss"}), ("loss=0.3", {"loss", "train_s", "tx_mb_s"})],
)
def test_runs_with_another_stop_rule_test_no_claim_that_depends_on_it(stop: str, untested: set[str]) -> None:
    columns = {"loss", "train_s", "tx_mb_s"}
    one = recipe(spec={"workload": "logreg", "stop": stop}, full={"stop": "steps=50"})
    found = fields_without_test(one.experiments(full=False), one.experiments(full=True), columns)
    assert found.keys() & columns == untested
    observations = times([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    (checked,) = compare_with_published(recipe(claims=(claim("more", Mode="Cluster"),)), observations, found).claims
    assert checked.outcome == ("not tested" if "train_s" in untested else "holds")


def test_values_that_the_report_does_not_state_are_noted() -> None:
    one = recipe(spec={"workload": "logreg", "batch": [10, 20], "lr": 0.01}, ours=("batch", "lr"))
    assert own_choices(one, one.experiments(full=True)) == [
        "Chosen here, because the report does not state it: batch 10, 20; lr 0.01."
    ]


def test_settings_of_the_small_form_that_differ_are_noted() -> None:
    one = recipe(spec={"workload": "logreg", "batch": [10, 20], "stop": "steps=5"}, full={"stop": {"steps": 50}})
    small, full = one.experiments(full=False), one.experiments(full=True)
    assert reduction_notes(small, full) == ["Different from the full form: stop steps=5 instead of steps=50."]
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
