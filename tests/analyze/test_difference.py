from analyze.made import made, repeats
from paceline.analyze.difference import Difference, difference
from paceline.analyze.metrics import ACCURACY, EXAMPLES, LOSS, MEMORY, TO_TARGET, UPDATES, Metric, informative_metrics
from paceline.analyze.repeats import Group, group_repeats
from paceline.store.result import Result


def told(figure: Metric, group: list[Result], base: list[Result]) -> Difference:
    found = difference(figure, Group(tuple(group)), Group(tuple(base)), "ps-async", "ps-sync")
    assert found is not None
    return found


def test_less_time_is_faster() -> None:
    base = repeats("s", [3.1, 3.0, 3.2, 3.1, 3.0], "to_loss_s")
    found = told(TO_TARGET, repeats("a", [1.0, 1.02, 0.98, 1.0, 1.01], "to_loss_s"), base)
    assert found.sentence == "ps-async is 3.1× faster to loss 0.5 (3.0 to 3.2×, 5 repeats)"
    assert (found.outcome, found.is_better) == ("differs", True)


def test_more_time_is_slower_and_told_the_same_way_round() -> None:
    group = repeats("a", [3.1, 3.0, 3.2, 3.1, 3.0], "to_loss_s")
    found = told(TO_TARGET, group, repeats("s", [1.0, 1.02, 0.98, 1.0, 1.01], "to_loss_s"))
    assert found.sentence == "ps-async is 3.1× slower to loss 0.5 (3.0 to 3.2×, 5 repeats)"
    assert not found.is_better


def test_a_higher_rate_is_faster() -> None:
    base = repeats("s", [100.0, 101.0, 99.0], "updates_per_s")
    found = told(UPDATES, repeats("a", [150.0, 151.0, 149.0], "updates_per_s"), base)
    assert found.sentence == "ps-async is 1.50× faster in updates/s (1.47 to 1.53×, 3 repeats)"
    slower = told(UPDATES, base, repeats("a", [150.0, 151.0, 149.0], "updates_per_s"))
    assert slower.sentence == "ps-async is 1.50× slower in updates/s (1.47 to 1.53×, 3 repeats)"


def test_what_chance_explains_is_no_difference_we_can_see() -> None:
    base = repeats("s", [100.0, 104.0, 97.0], "updates_per_s")
    found = told(UPDATES, repeats("a", [99.0, 102.0, 96.0], "updates_per_s"), base)
    assert found.outcome == "unclear"
    assert found.sentence == "ps-async: no difference we can see in updates/s (0.92 to 1.06×, 3 repeats)"


def test_one_repeat_each_cannot_tell() -> None:
    found = told(TO_TARGET, [made("a-1", to_loss_s=1.0)], [made("s-1", to_loss_s=3.1)])
    assert found.outcome == "unknown"
    assert found.sentence == "ps-async is 3.1× faster to loss 0.5 (one repeat each: may be chance)"
    alike = told(TO_TARGET, [made("a-1", to_loss_s=1.0)], [made("s-1", to_loss_s=1.0)])
    assert alike.sentence.startswith("ps-async: about the same time to loss 0.5 (one repeat each")


def test_what_is_alike_is_the_same_even_if_the_last_digit_always_differs() -> None:
    found = told(LOSS, repeats("a", [0.3441] * 3, "loss"), repeats("s", [0.344] * 3, "loss"))
    assert found.ratio.is_real
    assert found.sentence == "ps-async: the same final loss within 0.2 % (3 repeats)"


def test_amounts_are_so_many_times_another() -> None:
    more = told(MEMORY, repeats("a", [450.0, 451.0], "memory_mb"), repeats("s", [300.0, 301.0, 300.0], "memory_mb"))
    assert more.sentence.startswith("ps-async takes 1.50× the peak memory (1.4")
    assert more.sentence.endswith("2 and 3 repeats)")
    less = told(ACCURACY, repeats("a", [0.80, 0.81, 0.80], "accuracy"), repeats("s", [0.9, 0.9, 0.9], "accuracy"))
    assert less.sentence.startswith("ps-async ends at 0.89× the accuracy")


def test_runs_that_failed_or_were_disturbed_do_not_count() -> None:
    good = repeats("a", [100.0, 101.0], "updates_per_s")
    bad = [made("a-3", updates_per_s=1.0, status="failed"), made("a-4", updates_per_s=1.0, tainted=True)]
    found = told(UPDATES, [*good, *bad], repeats("s", [100.0, 101.0], "updates_per_s"))
    assert (found.ratio.value, found.repeats) == (1.0, 2)


def test_times_to_different_targets_are_not_compared() -> None:
    groups = group_repeats([made("a-1", to_loss_s=1.0), made("b-1", to_loss_s=None, batch=50, stop=["loss=0.5"])])
    assert difference(TO_TARGET, groups[0], groups[1], "a", "b") is None
    assert difference(EXAMPLES, groups[0], groups[1], "a", "b") is not None


def test_the_length_of_a_run_tells_nothing_if_it_was_given_or_the_work_was_not_the_same() -> None:
    def tells(*results: Result) -> bool:
        return "train_s" in [figure.key for figure in informative_metrics(group_repeats(results))]

    assert tells(made(batch=100, steps=[60, 60]), made(batch=200, steps=[30, 30]))
    assert not tells(made(batch=100), made(batch=200))
    assert not tells(made(stop=["seconds=10"]))
