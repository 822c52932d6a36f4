from analyze.made import made, repeats
from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import ACCURACY, EXAMPLES, LOSS, MEMORY, TO_TARGET, UPDATES, Metric, informative_metrics
from paceline.analyze.repeats import Group, group_repeats
from paceline.store.result import Result


def compare(metric: Metric, group: list[Result], base: list[Result]) -> Difference:
    found = difference(metric, Group(tuple(group)), Group(tuple(base)), "ps-async", "ps-sync")
    assert found is not None
    return found


def test_less_time_is_faster() -> None:
    base = repeats("s", [3.1, 3.0, 3.2, 3.1, 3.0], "to_loss_s")
    found = compare(TO_TARGET, repeats("a", [1.0, 1.02, 0.98, 1.0, 1.01], "to_loss_s"), base)
    assert found.sentence == "ps-async is 3.1× faster to loss 0.5 (95 % CI 3.0–3.2, n=5)"
    assert (found.outcome, found.is_better) == ("differs", True)


def test_more_time_is_slower_with_a_ratio_above_one() -> None:
    group = repeats("a", [3.1, 3.0, 3.2, 3.1, 3.0], "to_loss_s")
    found = compare(TO_TARGET, group, repeats("s", [1.0, 1.02, 0.98, 1.0, 1.01], "to_loss_s"))
    assert found.sentence == "ps-async is 3.1× slower to loss 0.5 (95 % CI 3.0–3.2, n=5)"
    assert not found.is_better


def test_a_higher_rate_is_faster() -> None:
    base = repeats("s", [100.0, 101.0, 99.0], "updates_per_s")
    found = compare(UPDATES, repeats("a", [150.0, 151.0, 149.0], "updates_per_s"), base)
    assert found.sentence == "ps-async is 1.50× faster in updates/s (95 % CI 1.47–1.53, n=3)"
    slower = compare(UPDATES, base, repeats("a", [150.0, 151.0, 149.0], "updates_per_s"))
    assert slower.sentence == "ps-async is 1.50× slower in updates/s (95 % CI 1.47–1.53, n=3)"


def test_a_difference_within_the_noise_is_not_significant() -> None:
    base = repeats("s", [100.0, 104.0, 97.0], "updates_per_s")
    found = compare(UPDATES, repeats("a", [99.0, 102.0, 96.0], "updates_per_s"), base)
    assert found.outcome == "unclear"
    assert found.sentence == (
        "ps-async: no significant difference in updates/s (95 % CI 1.09× slower to 1.06× faster, n=3)"
    )
    assert found.lead == "not significantly different from ps-sync (95 % CI 1.09× slower to 1.06× faster, n=3)"


def test_times_and_rates_are_compared_in_the_same_direction() -> None:
    """A time and the rate that follows from it give the same sentence."""
    seconds, base_seconds = [1.0, 1.3, 0.9], [1.1, 0.95, 1.2]
    time = compare(TO_TARGET, repeats("a", seconds, "to_loss_s"), repeats("s", base_seconds, "to_loss_s"))
    rates, base_rates = ([100 / value for value in values] for values in (seconds, base_seconds))
    rate = compare(UPDATES, repeats("a", rates, "updates_per_s"), repeats("s", base_rates, "updates_per_s"))
    assert "slower to" in time.lead
    assert time.lead == rate.lead


def test_the_ends_of_a_very_wide_interval_are_not_shown() -> None:
    wild = repeats("a", [1.0, 40.0, 9.0], "to_loss_s")
    found = compare(TO_TARGET, wild, repeats("s", [2.0, 2.1, 2.2], "to_loss_s"))
    assert found.sentence == (
        "ps-async: no significant difference in time to loss 0.5 (the repeats vary too much, n=3)"
    )


def test_speeds_of_runs_that_are_too_short_are_flagged() -> None:
    short = repeats("a", [1000.0, 1010.0, 990.0], "updates_per_s", train_s=0.04)
    found = compare(UPDATES, short, repeats("s", [50.0, 51.0, 49.0], "updates_per_s"))
    assert found.sentence.startswith("ps-async is 20.0× faster in updates/s (95 % CI ")
    assert found.sentence.endswith("n=3); too short to trust: ps-async trained for 0.04 s")
    few = repeats("s", [50.0, 51.0, 49.0], "updates_per_s", steps=[3, 3], train_s=15.0)
    assert compare(UPDATES, few, few).too_short == ("ps-async made 3 updates", "ps-sync made 3 updates")
    # An amount such as memory does not depend on the duration.
    assert compare(MEMORY, short, few).too_short == ()


def test_significance_of_two_repeats_is_unknown() -> None:
    found = compare(TO_TARGET, repeats("a", [1.0, 1.4], "to_loss_s"), repeats("s", [3.0, 3.2], "to_loss_s"))
    assert (found.outcome, found.ratio.low) == ("unknown", None)
    assert found.sentence == "ps-async is 2.6× faster to loss 0.5 (n=2: significance unknown)"


def test_significance_of_one_repeat_is_unknown() -> None:
    found = compare(TO_TARGET, [made("a-1", to_loss_s=1.0)], [made("s-1", to_loss_s=3.1)])
    assert found.outcome == "unknown"
    assert found.sentence == "ps-async is 3.1× faster to loss 0.5 (n=1: significance unknown)"
    same = compare(TO_TARGET, [made("a-1", to_loss_s=1.0)], [made("s-1", to_loss_s=1.0)])
    assert same.sentence == "ps-async: about the same time to loss 0.5 (n=1: significance unknown)"


def test_values_within_the_tolerance_are_the_same_even_if_the_difference_is_significant() -> None:
    found = compare(LOSS, repeats("a", [0.3441] * 3, "loss"), repeats("s", [0.344] * 3, "loss"))
    assert found.ratio.is_significant
    assert found.sentence == "ps-async: same test loss within 0.2 % (n=3)"


def test_amounts_are_multiples_of_the_baseline() -> None:
    four = repeats("a", [450.0, 451.0, 450.0, 451.0], "memory_mb")
    more = compare(MEMORY, four, repeats("s", [300.0, 301.0, 300.0], "memory_mb"))
    assert more.sentence.startswith("ps-async uses 1.50× the peak memory (95 % CI 1.4")
    assert more.sentence.endswith("n=4 and 3)")
    less = compare(ACCURACY, repeats("a", [0.80, 0.81, 0.80], "accuracy"), repeats("s", [0.9, 0.9, 0.9], "accuracy"))
    assert less.sentence.startswith("ps-async ends at 0.89× the accuracy")


def test_failed_and_tainted_runs_are_excluded() -> None:
    good = repeats("a", [100.0, 101.0], "updates_per_s")
    bad = [made("a-3", updates_per_s=1.0, status="failed"), made("a-4", updates_per_s=1.0, tainted=True)]
    found = compare(UPDATES, [*good, *bad], repeats("s", [100.0, 101.0], "updates_per_s"))
    assert (found.ratio.value, found.repeats) == (1.0, 2)


def test_times_to_different_targets_are_not_compared() -> None:
    groups = group_repeats([made("a-1", to_loss_s=1.0), made("b-1", to_loss_s=None, batch=50, stop=["loss=0.5"])])
    assert difference(TO_TARGET, groups[0], groups[1], "a", "b") is None
    assert difference(EXAMPLES, groups[0], groups[1], "a", "b") is not None


def test_training_time_is_informative_only_for_the_same_amount_of_work() -> None:
    def is_informative(*results: Result) -> bool:
        return "train_s" in [metric.key for metric in informative_metrics(group_repeats(results))]

    assert is_informative(made(batch=100, steps=[60, 60]), made(batch=200, steps=[30, 30]))
    assert not is_informative(made(batch=100), made(batch=200))
    assert not is_informative(made(stop=["seconds=10"]))
