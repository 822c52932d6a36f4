from analyze.made import made, repeats
from paceline.analyze.best_configuration import best_configurations
from paceline.analyze.repeats import group_repeats


def test_the_best_configuration_is_reported_with_its_lead_over_the_second() -> None:
    results = [
        *repeats("s", [3.1, 3.0, 3.2], "to_loss_s", strategy="ps-sync"),
        *repeats("a", [1.01, 1.0, 0.99], "to_loss_s", strategy="ps-async"),
        *repeats("r", [2.0, 2.02, 1.98], "to_loss_s", strategy="allreduce"),
    ]
    first = best_configurations(group_repeats(results))[0]
    assert (first.goal, first.name, first.lead.base, first.is_significant) == (
        "fastest to loss 0.5", "ps-async", "allreduce", True,
    )  # fmt: skip
    assert first.sentence == (
        "fastest to loss 0.5: ps-async, 1.00 s, 2.00× faster than allreduce (95 % CI 1.96–2.05, n=3); "
        "one update: 100 examples at learning rate 0.1 (ps-async), 200 at 0.1 (allreduce)"
    )


def test_a_lead_that_is_not_significant_is_not_claimed() -> None:
    results = [
        *repeats("s", [100.0, 120.0, 90.0], "examples_per_s", batch=100),
        *repeats("b", [105.0, 95.0, 118.0], "examples_per_s", batch=50),
    ]
    (best,) = [one for one in best_configurations(group_repeats(results)) if one.metric.key == "examples_per_s"]
    assert not best.is_significant
    assert "; not significantly different from batch 100 (95 % CI 1." in best.sentence


def test_runs_that_are_too_short_do_not_win_without_a_flag() -> None:
    results = [
        *repeats("s", [1000.0, 1010.0, 990.0], "examples_per_s", batch=100, train_s=0.04),
        *repeats("b", [50.0, 51.0, 49.0], "examples_per_s", batch=50),
    ]
    best = next(one for one in best_configurations(group_repeats(results)) if one.metric.key == "examples_per_s")
    assert best.sentence.endswith("; too short to trust: batch 100 trained for 0.04 s")
    assert not best.is_significant


def test_more_is_better_for_rates_and_accuracy_and_less_for_memory() -> None:
    small = made("s-1", updates_per_s=10.0, accuracy=0.8, memory_mb=100.0)
    large = made("l-1", batch=200, updates_per_s=20.0, accuracy=0.9, memory_mb=200.0)
    found = {best.metric.key: best for best in best_configurations(group_repeats([small, large]))}
    assert found["final_accuracy"].name == "batch 200"
    assert found["memory_mb"].name == "batch 100"
    # An update has twice as many examples with the larger batch, so updates/s have no winner.
    assert "updates_per_s" not in found
    assert "one update: 400 examples" in found["final_accuracy"].sentence
    assert not found["memory_mb"].different_updates


def test_updates_with_the_same_examples_and_learning_rate_are_alike() -> None:
    sync, ring = made("s-1", strategy="ps-sync", to_loss_s=1.0), made("r-1", strategy="allreduce", to_loss_s=2.0)
    assert not any(best.different_updates for best in best_configurations(group_repeats([sync, ring])))
    scaled = made("r-1", strategy="allreduce", to_loss_s=2.0, lr=0.2, settings={**sync.settings, "lr_scale": "linear"})
    best = best_configurations(group_repeats([sync, scaled]))[0]
    assert best.different_updates.startswith("one update: 200 examples at learning rate 0.1 (")


def test_different_workloads_are_not_compared() -> None:
    results = [made(workload=name, batch=batch) for name in ("logreg", "lenet") for batch in (50, 100)]
    results.append(made(workload="alexnet"))
    found = best_configurations(group_repeats(results))
    assert {best.subject for best in found} == {"logreg", "lenet"}
    assert all(best.lead.base.startswith(best.subject) for best in found)


def test_a_group_that_missed_the_target_is_not_ranked_by_time_to_target() -> None:
    missed = made("m-1", strategy="ps-async", stop=["loss=0.5"])
    results = [made("s-1", to_loss_s=1.0), made("b-1", strategy="allreduce", to_loss_s=2.0), missed]
    first = best_configurations(group_repeats(results))[0]
    assert (first.name, first.lead.base) == ("ps-sync", "allreduce")


def test_configurations_with_different_stop_rules_are_not_ranked_against_each_other() -> None:
    results = [
        made(f"s-{steps}-{batch}", batch=batch, stop=[f"steps={steps}"], examples_per_s=steps + batch)
        for steps in (200, 300)
        for batch in (50, 100)
    ]
    found = [best for best in best_configurations(group_repeats(results)) if best.metric.key == "examples_per_s"]
    assert [(best.subject, best.winner.first.run) for best in found] == [
        ("until steps=200", "s-200-100"),
        ("until steps=300", "s-300-100"),
    ]
    assert not best_configurations(group_repeats([results[0], results[-1]]))
