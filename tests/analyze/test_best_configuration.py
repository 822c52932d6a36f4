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
        "fastest to loss 0.5: ps-async, 1.00 s, 2.00× faster than allreduce (95 % CI 1.96–2.05, n=3)"
    )


def test_a_lead_that_is_not_significant_is_not_claimed() -> None:
    results = [
        *repeats("s", [100.0, 120.0, 90.0], "examples_per_s", batch=100),
        *repeats("b", [105.0, 95.0, 118.0], "examples_per_s", batch=50),
    ]
    (best,) = [one for one in best_configurations(group_repeats(results)) if one.metric.key == "examples_per_s"]
    assert not best.is_significant
    assert "; not significantly different from batch 100 (95 % CI of the throughput ratio " in best.sentence


def test_more_is_better_for_rates_and_accuracy_and_less_for_memory() -> None:
    small = made("s-1", updates_per_s=10.0, accuracy=0.8, memory_mb=100.0)
    large = made("l-1", batch=200, updates_per_s=20.0, accuracy=0.9, memory_mb=200.0)
    winners = {best.metric.key: best.name for best in best_configurations(group_repeats([small, large]))}
    assert winners["updates_per_s"] == winners["final_accuracy"] == "batch 200"
    assert winners["memory_mb"] == "batch 100"


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
