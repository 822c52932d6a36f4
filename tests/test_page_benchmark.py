"""The benchmark of the page must see what a page costs."""

import numpy as np
import pytest
from bench.interleaved import slowdown
from bench.page import Slot, blocks_of

SECOND = 10**9


def slots(count: int) -> list[Slot]:
    """Slots of four seconds, of which the first tenth does not count, each pair in another order."""
    return [
        Slot(
            is_open=number.bit_count() % 2 == 0,
            start_ns=(10 + 4 * number) * SECOND + SECOND // 10,
            end_ns=(14 + 4 * number) * SECOND,
            server_cpu_s=0.01,
            stolen_s=0.0,
        )
        for number in range(count)
    ]


def steps(all_slots: list[Slot], cost: float) -> "np.ndarray":
    """When steps end: 1,000 a second, and fewer by the share `cost` while the page is open."""
    ends = [
        np.arange(slot.start_ns, slot.end_ns, SECOND / (1_000 * (1 - cost if slot.is_open else 1)))
        for slot in all_slots
    ]
    return np.concatenate(ends).astype(np.int64)


@pytest.mark.parametrize("cost", [0.0, 0.02, 0.1])
def test_the_cost_of_a_page_is_seen(cost: float) -> None:
    all_slots = slots(8)
    ends_ns = steps(all_slots, cost)
    blocks = blocks_of(all_slots, ends_ns, (0, 10**12))
    assert len(blocks) == 4
    assert slowdown(blocks) == pytest.approx(cost, abs=0.001)


def test_slots_before_and_after_the_training_do_not_count() -> None:
    all_slots = slots(8)
    ends_ns = steps(all_slots, 0.0)
    assert len(blocks_of(all_slots, ends_ns, (12 * SECOND, 40 * SECOND))) == 2
    assert len(blocks_of(all_slots[:5], ends_ns, (0, 10**12))) == 2  # A slot without its partner.
