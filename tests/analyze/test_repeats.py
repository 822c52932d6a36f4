from analyze.made import made, repeats
from paceline.analyze.repeats import Group, Spread, group_repeats, names, overlap, varied


def test_repeats_are_grouped_whatever_order_they_came_in() -> None:
    results = [made("s-1"), made("s-2", batch=50), made("s-3", repeat=2), made("s-4", batch=50, repeat=2)]
    groups = group_repeats(results)
    assert [[result.run for result in group.results] for group in groups] == [["s-1", "s-3"], ["s-2", "s-4"]]
    assert varied(groups) == ["batch"]


def test_runs_on_a_part_of_the_examples_are_no_repeats_of_those_on_all() -> None:
    settings = [{"stop": ["steps=5"], "examples": asked} for asked in (None, 1_000)]
    assert len(group_repeats([made(settings=one) for one in settings])) == 2


def test_a_spread_is_the_median_and_the_furthest_repeats() -> None:
    group = Group(tuple(repeats("s", [3.0, 1.0, 1.5], "train_s")))
    assert group.spread(lambda r: r.train_s) == Spread(median=1.5, lowest=1.0, highest=3.0)
    assert Spread(median=1.5, lowest=1.0, highest=3.0).reach == 1.5


def test_only_runs_that_went_well_and_undisturbed_count() -> None:
    group = Group((made("s-1"), made("s-2", status="failed"), made("s-3", tainted=True), made("s-4", status="aborted")))
    assert [result.run for result in group.ok] == ["s-1"]


def test_groups_are_named_by_what_sets_them_apart() -> None:
    assert names(group_repeats([made(strategy="ps-sync"), made(strategy="ps-async")])) == ["ps-sync", "ps-async"]
    assert names(group_repeats([made(batch=100), made(batch=200)])) == ["batch 100", "batch 200"]
    assert names(group_repeats([made(workers=2), made(workers=3)])) == ["'pw w'", "'pw w w'"]
    assert names(group_repeats([made()])) == ["ps-sync"]


def test_a_layout_that_follows_from_the_strategy_is_not_named() -> None:
    both = group_repeats([made(strategy="ps-sync", layout="pw w"), made(strategy="allreduce", layout="w w")])
    assert names(both) == ["ps-sync", "allreduce"]
    assert varied(both) == ["strategy", "layout"]


def test_the_same_configuration_before_and_after_is_told_apart_by_its_sweep() -> None:
    results = [made("before-1"), made("before-2"), made("after-1")]
    assert overlap(results)
    assert len(group_repeats(results)) == 1
    groups = group_repeats(results, by_sweep=True)
    assert names(groups) == ["before", "after"]


def test_a_target_counts_only_if_every_run_reached_it() -> None:
    assert Group((made(to_loss_s=1.0), made(to_loss_s=2.0))).target == "loss=0.5"
    assert Group((made(to_loss_s=1.0), made(stop=["loss=0.5"]))).target is None
    assert Group((made(stop=["loss=0.5"]),)).wanted == ["loss=0.5"]


def test_a_run_of_before_a_setting_was_there_is_a_repeat_of_one_with_what_is_usual() -> None:
    settings = [{"stop": ["steps=5"]}, {"stop": ["steps=5"], "restarts": 3}, {"stop": ["steps=5"], "restarts": 1}]
    older, newer, other = (made(settings=one) for one in settings)
    assert [group.results for group in group_repeats([older, newer, other])] == [(older, newer), (other,)]
