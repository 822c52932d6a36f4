from analyze.made import made, repeats
from paceline.analyze.baseline import Pair, pairs
from paceline.analyze.comparison import compare
from paceline.analyze.regression_gate import check_gate
from paceline.analyze.repeats import group_repeats, names
from paceline.store.result import Result


def held(results: list[Result], *, by_sweep: bool = False) -> list[Pair]:
    groups = group_repeats(results, by_sweep=by_sweep)
    return pairs(groups, names(groups))


def test_what_is_really_slower_than_allowed_is_too_slow() -> None:
    before = repeats("before", [1.0, 1.01, 0.99], "to_loss_s")
    after = repeats("after", [1.1, 1.11, 1.09], "to_loss_s")
    (ruling,) = check_gate(held([*before, *after], by_sweep=True), 0.05)
    assert ruling.too_slow
    assert ruling.why == "after against before: 1.10× slower to loss 0.5 (1.08 to 1.12×, 3 repeats)"
    assert not check_gate(held([*before, *after], by_sweep=True), 0.15)[0].too_slow
    assert not check_gate(held([*after, *before], by_sweep=True), 0.05)[0].too_slow


def test_noise_does_not_fail_but_is_told() -> None:
    before = repeats("before", [1.0, 1.4, 0.9], "to_loss_s")
    after = repeats("after", [1.2, 1.0, 1.5], "to_loss_s")
    (ruling,) = check_gate(held([*before, *after], by_sweep=True), 0.05)
    assert not ruling.too_slow
    assert "the median is 1.20× as slow, which may be chance: more repeats would tell" in ruling.why


def test_with_one_repeat_the_medians_decide_and_it_says_so() -> None:
    results = [made("before-1", to_loss_s=1.0), made("after-1", to_loss_s=1.2)]
    (ruling,) = check_gate(held(results, by_sweep=True), 0.05)
    assert ruling.too_slow
    assert "one repeat each: may be chance" in ruling.why


def test_without_a_target_the_pace_decides() -> None:
    slow = repeats("after", [80.0, 81.0, 79.0], "examples_per_s")
    (ruling,) = check_gate(
        held([*repeats("before", [100.0, 101.0, 99.0], "examples_per_s"), *slow], by_sweep=True), 0.05
    )
    assert ruling.too_slow
    assert "1.25× slower in examples/s" in ruling.why
    product = [made("before-1", batch=0, updates_per_s=10.0), made("after-1", batch=0, updates_per_s=10.0)]
    (ruling,) = check_gate(held(product, by_sweep=True), 0.05)
    assert not ruling.too_slow
    assert "the same updates/s" in ruling.why


def test_what_failed_or_missed_the_target_does_not_pass() -> None:
    good = made("before-1", to_loss_s=1.0)
    for bad in (
        made("after-1", to_loss_s=1.0, status="failed"),
        made("after-1", to_loss_s=1.0, tainted=True),
        made("after-1", stop=["loss=0.5"]),
    ):
        assert check_gate(held([good, bad], by_sweep=True), 0.05)[0].too_slow


def test_each_configuration_is_held_against_itself_before() -> None:
    results = [made("before-1"), made("before-2", batch=50), made("after-1"), made("after-2", batch=50)]
    found = [(pair.name, pair.base_name) for pair in held(results, by_sweep=True)]
    assert found == [("after batch 100", "before batch 100"), ("after batch 50", "before batch 50")]


def test_a_configuration_that_is_new_has_no_base() -> None:
    found = compare([made("before-1"), made("after-1"), made("after-2", batch=50)], by_sweep=True)
    assert [pair.name for pair in found.pairs] == ["after batch 100"]
    assert found.unpaired == ["after batch 50"]


def test_otherwise_all_are_held_against_the_first_or_the_one_chosen() -> None:
    groups = group_repeats([made(batch=10), made(batch=20), made(batch=30)])
    called = names(groups)
    assert [pair.base_name for pair in pairs(groups, called)] == ["batch 10", "batch 10"]
    chosen = pairs(groups, called, groups[2])
    assert [(pair.name, pair.base_name) for pair in chosen] == [("batch 10", "batch 30"), ("batch 20", "batch 30")]
