from analyze.made import made
from paceline.analyze.metrics import examples_to_target, staleness
from paceline.analyze.repeats import Group, group_repeats
from paceline.analyze.sync_async import dominant_worker, is_synchronous, steps_per_worker, sync_async_comparisons


def test_reaching_the_same_loss_costs_time_updates_and_examples() -> None:
    sync = [made(f"s-{n}", to_loss_s=1.0 + n / 100, steps=[100, 100]) for n in range(3)]
    other = [made(f"a-{n}", strategy="ps-async", to_loss_s=0.4 + n / 100, steps=[70, 70]) for n in range(3)]
    (pair,) = sync_async_comparisons(group_repeats([*sync, *other]))
    assert pair.sentence == (
        "to reach loss 0.5, ps-async needed 59 % less time, 40 % more updates and 30 % fewer examples than ps-sync; "
        "one update: 100 examples at learning rate 0.1 (ps-async), 200 at 0.1 (ps-sync)"
    )


def test_an_equal_cost_is_stated_without_a_number() -> None:
    sync = [made(f"s-{n}", to_loss_s=1.0 + n / 100, steps=[800, 800]) for n in range(3)]
    other = [made(f"a-{n}", strategy="ps-async", to_loss_s=0.4 + n / 100, steps=[401, 400]) for n in range(3)]
    (pair,) = sync_async_comparisons(group_repeats([*sync, *other]))
    assert "59 % less time, the same number of updates and 50 % fewer examples than ps-sync" in pair.sentence


def test_unknown_significance_is_stated() -> None:
    results = [made("s-1", to_loss_s=1.0), made("a-1", strategy="ps-async", to_loss_s=0.5)]
    (pair,) = sync_async_comparisons(group_repeats(results))
    assert " ps-sync (n=1: significance unknown)" in pair.sentence


def test_a_difference_that_is_not_significant_is_named() -> None:
    times = [(1.0, 0.8), (1.5, 1.6), (0.7, 0.9)]
    sync = [made(f"s-{n}", to_loss_s=time, steps=[100, 100]) for n, (time, _) in enumerate(times)]
    other = [made(f"a-{n}", strategy="ps-async", to_loss_s=time, steps=[70, 70]) for n, (_, time) in enumerate(times)]
    (pair,) = sync_async_comparisons(group_repeats([*sync, *other]))
    assert " than ps-sync (difference in time not significant)" in pair.sentence


def test_without_a_target_there_is_no_cost() -> None:
    (pair,) = sync_async_comparisons(group_repeats([made("s-1"), made("a-1", strategy="ps-async")]))
    assert (pair.costs, pair.sentence) == ((), "")


def test_only_groups_with_the_same_number_of_workers_are_compared() -> None:
    assert sync_async_comparisons(group_repeats([made(workers=2), made(strategy="ps-async", workers=3)])) == []
    assert sync_async_comparisons(group_repeats([made(workers=1), made(strategy="ps-async", workers=1)])) == []


def test_allreduce_is_compared_as_synchronous_although_its_layout_differs() -> None:
    results = [made(strategy="allreduce", layout="w w"), made(strategy="ps-async", steps=[1, 199])]
    (pair,) = sync_async_comparisons(group_repeats(results))
    assert (pair.name, pair.base_name) == ("ps-async", "allreduce")


def test_a_run_in_which_one_worker_made_all_steps_is_not_synchronous() -> None:
    assert not is_synchronous(Group((made(strategy="ps-async", steps=[0, 200]),)))
    assert is_synchronous(Group((made(strategy="ps-sync", steps=[200, 200]),)))


def test_examples_to_target_are_those_of_the_updates_until_the_target() -> None:
    assert examples_to_target(made(to_loss_s=1.0, steps=[100, 100], updates_to_loss=50)) == 50 * 2 * 100
    result = made(strategy="ps-async", to_loss_s=1.0, steps=[50, 150], updates_to_loss=150)
    assert examples_to_target(result) == 150 * 100
    assert examples_to_target(made()) is None


def test_staleness_is_a_mean_over_all_steps() -> None:
    assert staleness(made(strategy="ps-async", staleness=2.0)) == 2.0
    assert staleness(made()) is None


def test_a_worker_that_makes_most_steps_is_found() -> None:
    group = Group(tuple(made(strategy="ps-async", steps=[10, 30 + n]) for n in (0, 1, 2)))
    assert steps_per_worker(group)["w1"].median == 31
    assert dominant_worker(group) == ("w1", 31 / 41)
    assert dominant_worker(Group((made(steps=[20, 30]),))) is None
