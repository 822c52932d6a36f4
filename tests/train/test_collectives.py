"""How the times of `paceline bench-collectives` become latencies and bandwidths."""

import msgspec
import pytest

from paceline.paramserver.buckets import BUCKET_BYTES
from paceline.paramserver.collectives_server import buckets_of
from paceline.train.collectives import SIZES, Operation, Order, Times, measurements, smaller_sizes


def times(operation: Operation, size: int, repeats: list[float]) -> Times:
    return {operation: {size: repeats}}


@pytest.mark.parametrize(
    ("operation", "workers", "link_mb_s"),
    [
        ("all-reduce", 2, 10.0), ("all-reduce", 4, 15.0), ("broadcast", 2, 10.0), ("broadcast", 3, 20.0),
        ("broadcast", 8, 30.0), ("pull", 2, 10.0), ("pull", 4, 30.0), ("push+pull", 3, 20.0),
    ],
)  # fmt: skip
def test_the_busiest_link_carries_the_vector_this_often(operation: Operation, workers: int, link_mb_s: float) -> None:
    (one,) = measurements([times(operation, 1_000_000, [0.1])] * workers)
    assert one.workers == workers
    assert one.bandwidth_mb_s == pytest.approx(10)
    assert one.link_mb_s == pytest.approx(link_mb_s)


def test_a_repeat_lasts_until_the_last_worker_is_done() -> None:
    (one,) = measurements([times("pull", 1000, [1.0, 5.0, 2.0]), times("pull", 1000, [3.0, 1.0, 1.0])])
    assert (one.repeats, one.latency_s, one.min_s) == (3, 3.0, 2.0)


def test_quick_operations_are_repeated_often_and_slow_ones_a_few_times() -> None:
    order = Order((1000,), budget_s=0.5)
    assert [order.repeats(seconds) for seconds in (0.0, 1e-4, 0.01, 0.1, 100.0)] == [200, 200, 50, 5, 3]


def test_sizes_are_those_up_to_the_largest() -> None:
    assert smaller_sizes(1_000_000_000) == SIZES
    assert smaller_sizes(20_000) == (1000, 4000, 16_000)
    assert msgspec.json.decode(Order(SIZES, 1.0).as_options()["collectives"], type=Order).sizes == SIZES


def test_vectors_are_cut_into_messages_that_a_server_accepts() -> None:
    buckets = buckets_of(SIZES)
    assert list(buckets) == list(SIZES)
    numbers = [number for parts in buckets.values() for number, _ in parts]
    assert numbers == list(range(len(numbers)))
    for size, parts in buckets.items():
        assert sum(4 * (part.stop - part.start) for _, part in parts) == size
        assert all(0 < 4 * (part.stop - part.start) <= BUCKET_BYTES for _, part in parts)
