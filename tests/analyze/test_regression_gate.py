from analyze.made import made, repeats
from paceline.analyze.baseline import Pair, pairs
from paceline.analyze.comparison import compare
from paceline.analyze.regression_gate import check_gate
from paceline.analyze.repeats import group_names, group_repeats
from paceline.store.result import Result


def baseline_pairs(results: list[Result], *, by_sweep: bool = False) -> list[Pair]:
    groups = group_repeats(results, by_sweep=by_sweep)
    return pairs(groups, group_names(groups))


def test_a_significant_slowdown_beyond_the_limit_is_too_slow() -> None:
    before = repeats("before", [1.0, 1.01, 0.99], "to_loss_s")
    after = repeats("after", [1.1, 1.11, 1.09], "to_loss_s")
    (result,) = check_gate(baseline_pairs([*before, *after], by_sweep=True), 0.05)
    assert result.too_slow
    assert result.why == "after compared with before: 1.10× slower to loss 0.5 (95 % CI 1.08–1.12, n=3)"
    assert not check_gate(baseline_pairs([*before, *after], by_sweep=True), 0.15)[0].too_slow
    assert not check_gate(baseline_pairs([*after, *before], by_sweep=True), 0.05)[0].too_slow


def test_a_slowdown_that_is_not_significant_passes_with_a_remark() -> None:
    before = repeats("before", [1.0, 1.4, 0.9], "to_loss_s")
    after = repeats("after", [1.2, 1.0, 1.5], "to_loss_s")
    (result,) = check_gate(baseline_pairs([*before, *after], by_sweep=True), 0.05)
    assert not result.too_slow
    assert "the median is 1.20× slower, which is not significant: run more repeats" in result.why


def test_with_one_repeat_the_medians_decide() -> None:
    results = [made("before-1", to_loss_s=1.0), made("after-1", to_loss_s=1.2)]
    (result,) = check_gate(baseline_pairs(results, by_sweep=True), 0.05)
    assert result.too_slow
    assert "n=1: significance unknown" in result.why


def test_without_a_target_throughput_decides() -> None:
    slow = repeats("after", [80.0, 81.0, 79.0], "examples_per_s")
    (result,) = check_gate(
        baseline_pairs([*repeats("before", [100.0, 101.0, 99.0], "examples_per_s"), *slow], by_sweep=True), 0.05
    )
    assert result.too_slow
    assert "1.25× slower in examples/s" in result.why
    product = [made("before-1", batch=0, updates_per_s=10.0), made("after-1", batch=0, updates_per_s=10.0)]
    (result,) = check_gate(baseline_pairs(product, by_sweep=True), 0.05)
    assert not result.too_slow
    assert "same updates/s" in result.why


def test_failed_runs_and_a_missed_target_do_not_pass() -> None:
    good = made("before-1", to_loss_s=1.0)
    for bad in (
        made("after-1", to_loss_s=1.0, status="failed"),
        made("after-1", to_loss_s=1.0, tainted=True),
        made("after-1", stop=["loss=0.5"]),
    ):
        assert check_gate(baseline_pairs([good, bad], by_sweep=True), 0.05)[0].too_slow


def test_the_baseline_is_the_same_configuration_in_the_first_sweep() -> None:
    results = [made("before-1"), made("before-2", batch=50), made("after-1"), made("after-2", batch=50)]
    found = [(pair.name, pair.base_name) for pair in baseline_pairs(results, by_sweep=True)]
    assert found == [("after batch 100", "before batch 100"), ("after batch 50", "before batch 50")]


def test_a_configuration_of_only_one_sweep_has_no_baseline() -> None:
    found = compare([made("before-1"), made("after-1"), made("after-2", batch=50)], by_sweep=True)
    assert [pair.name for pair in found.pairs] == ["after batch 100"]
    assert found.unpaired == ["after batch 50"]


def test_the_baseline_is_the_first_group_or_the_selected_one() -> None:
    groups = group_repeats([made(batch=10), made(batch=20), made(batch=30)])
    names = group_names(groups)
    assert [pair.base_name for pair in pairs(groups, names)] == ["batch 10", "batch 10"]
    chosen = pairs(groups, names, groups[2])
    assert [(pair.name, pair.base_name) for pair in chosen] == [("batch 10", "batch 30"), ("batch 20", "batch 30")]
