from analyze.made import made, repeats
from paceline.analyze.repeats import Group, Spread, group_names, group_repeats, overlap, varied


def test_repeats_are_grouped_in_any_order() -> None:
    results = [made("s-1"), made("s-2", batch=50), made("s-3", repeat=2), made("s-4", batch=50, repeat=2)]
    groups = group_repeats(results)
    assert [[result.run for result in group.results] for group in groups] == [["s-1", "s-3"], ["s-2", "s-4"]]
    assert varied(groups) == ["batch"]


def test_runs_with_different_numbers_of_examples_are_not_repeats() -> None:
    settings = [{"stop": ["steps=5"], "examples": examples} for examples in (None, 1_000)]
    assert len(group_repeats([made(settings=one) for one in settings])) == 2


def test_a_spread_is_the_median_and_the_range_of_the_repeats() -> None:
    group = Group(tuple(repeats("s", [3.0, 1.0, 1.5], "train_s")))
    assert group.spread(lambda r: r.train_s) == Spread(median=1.5, lowest=1.0, highest=3.0)


def test_only_successful_untainted_runs_are_usable() -> None:
    group = Group((made("s-1"), made("s-2", status="failed"), made("s-3", tainted=True), made("s-4", status="aborted")))
    assert [result.run for result in group.ok] == ["s-1"]


def test_groups_are_named_by_the_settings_in_which_they_differ() -> None:
    assert group_names(group_repeats([made(strategy="ps-sync"), made(strategy="ps-async")])) == ["ps-sync", "ps-async"]
    assert group_names(group_repeats([made(batch=100), made(batch=200)])) == ["batch 100", "batch 200"]
    assert group_names(group_repeats([made(workers=2), made(workers=3)])) == ["'pw w'", "'pw w w'"]
    assert group_names(group_repeats([made()])) == ["torch ps-sync 'pw w' batch 100"]


def test_a_layout_that_follows_from_the_strategy_is_not_in_the_name() -> None:
    both = group_repeats([made(strategy="ps-sync", layout="pw w"), made(strategy="allreduce", layout="w w")])
    assert group_names(both) == ["ps-sync", "allreduce"]
    assert varied(both) == ["strategy", "layout"]


def test_equal_configurations_are_named_by_their_sweep() -> None:
    results = [made("before-1"), made("before-2"), made("after-1")]
    assert overlap(results)
    assert len(group_repeats(results)) == 1
    groups = group_repeats(results, by_sweep=True)
    assert group_names(groups) == ["before", "after"]


def test_a_group_has_a_target_only_if_every_run_reached_it() -> None:
    assert Group((made(to_loss_s=1.0), made(to_loss_s=2.0))).target == "loss=0.5"
    assert Group((made(to_loss_s=1.0), made(stop=["loss=0.5"]))).target is None
    assert Group((made(stop=["loss=0.5"]),)).requested_targets == ["loss=0.5"]


def test_a_run_without_a_newer_setting_is_a_repeat_of_one_with_its_default() -> None:
    settings = [{"stop": ["steps=5"]}, {"stop": ["steps=5"], "restarts": 3}, {"stop": ["steps=5"], "restarts": 1}]
    older, newer, other = (made(settings=one) for one in settings)
    assert [group.results for group in group_repeats([older, newer, other])] == [(older, newer), (other,)]
