from analyze.made import made
from paceline.analyze.metrics import examples_to_target, staleness
from paceline.analyze.repeats import Group, group_repeats
from paceline.analyze.sync_async import is_synchronous, steps_per_worker, sync_async_comparisons, uneven


def test_the_same_loss_costs_seconds_updates_and_examples() -> None:
    sync = [made(f"s-{n}", to_loss_s=1.0 + n / 100, steps=[100, 100]) for n in range(3)]
    other = [made(f"a-{n}", strategy="ps-async", to_loss_s=0.4 + n / 100, steps=[70, 70]) for n in range(3)]
    (trade,) = sync_async_comparisons(group_repeats([*sync, *other]))
    assert trade.sentence == (
        "the same loss 0.5 took ps-async 0.41× the seconds, 1.40× the updates and 0.70× the examples, against ps-sync"
    )


def test_as_many_updates_are_not_a_number() -> None:
    sync = [made(f"s-{n}", to_loss_s=1.0 + n / 100, steps=[800, 800]) for n in range(3)]
    other = [made(f"a-{n}", strategy="ps-async", to_loss_s=0.4 + n / 100, steps=[401, 400]) for n in range(3)]
    (trade,) = sync_async_comparisons(group_repeats([*sync, *other]))
    assert "0.41× the seconds, as many updates and 0.50× the examples" in trade.sentence


def test_what_may_be_chance_is_said_to_be() -> None:
    results = [made("s-1", to_loss_s=1.0), made("a-1", strategy="ps-async", to_loss_s=0.5)]
    (trade,) = sync_async_comparisons(group_repeats(results))
    assert trade.sentence.endswith("(the seconds and updates may be chance)")


def test_without_a_target_there_is_no_price() -> None:
    (trade,) = sync_async_comparisons(group_repeats([made("s-1"), made("a-1", strategy="ps-async")]))
    assert (trade.prices, trade.sentence) == ((), "")


def test_only_groups_with_as_many_workers_are_rivals() -> None:
    assert sync_async_comparisons(group_repeats([made(workers=2), made(strategy="ps-async", workers=3)])) == []
    assert sync_async_comparisons(group_repeats([made(workers=1), made(strategy="ps-async", workers=1)])) == []


def test_allreduce_is_synchronous_too_though_its_layout_is_another() -> None:
    results = [made(strategy="allreduce", layout="w w"), made(strategy="ps-async", steps=[1, 199])]
    (trade,) = sync_async_comparisons(group_repeats(results))
    assert (trade.name, trade.base_name) == ("ps-async", "allreduce")


def test_a_run_in_which_one_worker_made_all_steps_is_not_synchronous() -> None:
    assert not is_synchronous(Group((made(strategy="ps-async", steps=[0, 200]),)))
    assert is_synchronous(Group((made(strategy="ps-sync", steps=[200, 200]),)))


def test_examples_to_target_are_those_of_the_updates_until_then() -> None:
    assert examples_to_target(made(to_loss_s=1.0, steps=[100, 100], updates_to_loss=50)) == 50 * 2 * 100
    result = made(strategy="ps-async", to_loss_s=1.0, steps=[50, 150], updates_to_loss=150)
    assert examples_to_target(result) == 150 * 100
    assert examples_to_target(made()) is None


def test_staleness_is_over_all_steps() -> None:
    assert staleness(made(strategy="ps-async", staleness=2.0)) == 2.0
    assert staleness(made()) is None


def test_a_worker_that_makes_most_steps_is_noticed() -> None:
    group = Group(tuple(made(strategy="ps-async", steps=[10, 30 + n]) for n in (0, 1, 2)))
    assert steps_per_worker(group)["w1"].median == 31
    assert uneven(group) == ("w1", 31 / 41)
    assert uneven(Group((made(steps=[20, 30]),))) is None
