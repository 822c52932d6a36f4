import pytest

from analyze.made import made, repeats
from paceline.analyze.repeats import group_repeats
from paceline.analyze.scaling import scalings
from paceline.store.result import Result


def repeats_with(workers: int, rate: float, **fields: object) -> list[Result]:
    rates = [rate * 0.99, rate, rate * 1.01]
    return repeats("s", rates, "examples_per_s", workers=workers, **fields)


def test_weak_scaling_has_a_constant_batch_per_worker() -> None:
    (found,) = scalings(group_repeats([*repeats_with(3, 240.0), *repeats_with(1, 100.0), *repeats_with(2, 180.0)]))
    assert (found.kind, found.base_name, found.base.workers) == ("weak", "'pw'", 1)
    two, three = found.points
    assert [two.workers, three.workers] == [2, 3]
    assert two.throughput is not None
    assert two.throughput.gain.value == pytest.approx(1.8)
    assert two.efficiency(two.throughput) == pytest.approx(0.9)
    assert three.throughput is not None
    assert three.efficiency(three.throughput) == pytest.approx(0.8)
    assert three.to_target is None


def test_strong_scaling_has_a_constant_total_batch() -> None:
    (found,) = scalings(
        group_repeats(
            [*repeats_with(1, 100.0, batch=200), *repeats_with(2, 150.0, batch=100), *repeats_with(4, 200.0, batch=50)]
        )
    )
    assert found.kind == "strong"
    assert [point.workers for point in found.points] == [2, 4]
    assert found.points[1].throughput is not None
    assert found.points[1].efficiency(found.points[1].throughput) == pytest.approx(0.5)


def test_a_grid_of_batches_and_workers_has_both_kinds() -> None:
    grid = [repeats_with(workers, 100.0 * workers, batch=batch) for workers in (1, 2) for batch in (50, 100)]
    kinds = [found.kind for found in scalings(group_repeats([one for cell in grid for one in cell]))]
    assert sorted(kinds) == ["strong", "weak", "weak"]


def test_speedup_to_target_is_the_ratio_of_times() -> None:
    results = [made("s-1", workers=1, to_loss_s=4.0), made("s-2", workers=2, to_loss_s=2.5)]
    (found,) = scalings(group_repeats(results))
    gain = found.points[0].to_target
    assert gain is not None
    assert gain.gain.value == pytest.approx(1.6)
    assert found.points[0].efficiency(gain) == pytest.approx(0.8)


def test_the_single_worker_is_the_baseline_of_a_strategy_without_one() -> None:
    alone = repeats_with(1, 100.0, strategy="single", layout="w")
    (found,) = scalings(group_repeats([*alone, *repeats_with(3, 210.0, strategy="allreduce", layout="w w w")]))
    assert found.base_name.startswith("single")
    assert found.points[0].times_workers == 3


def test_strategies_are_not_mixed() -> None:
    sync, other = repeats_with(1, 100.0, strategy="ps-sync"), repeats_with(2, 180.0, strategy="ps-async")
    assert scalings(group_repeats([*sync, *other])) == []
