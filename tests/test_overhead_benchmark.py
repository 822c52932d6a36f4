"""The overhead benchmark must not report a lower overhead than there is."""

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from bench.interleaved import (
    Block,
    complete_blocks,
    read_agent_slots,
    read_worker_slots,
    run_interleaved,
    slowdown,
    slowdown_interval,
)
from bench.slots import (
    INTERVAL_FACTOR,
    SETTLE_NS,
    SLOT_NS,
    SLOTS_PER_BLOCK,
    AgentSlot,
    WorkerMark,
    is_measured,
    next_measured,
)


def write_marks(
    path: Path, slots: Sequence[int], measured_steps: int, other_steps: int, *, recording: bool | None = None
) -> Path:
    """Write the notes of a worker that makes so many steps per slot. `recording`: in every slot, or in none."""
    step = records = 0
    lines = []
    for slot in slots:
        for offset_ns in (SETTLE_NS, SLOT_NS):
            steps = measured_steps if is_measured(slot) else other_steps
            step += steps
            records += steps if (is_measured(slot) if recording is None else recording) else 0
            lines.append(msgspec.json.encode(WorkerMark(slot, slot * SLOT_NS + offset_ns, step, records, 0.0)))
    path.write_bytes(b"\n".join(lines))
    return path


def test_one_of_two_slots_is_measured_and_neither_kind_comes_first_more_often() -> None:
    measured = [is_measured(slot) for slot in range(1024)]
    pairs = list(zip(measured[::2], measured[1::2], strict=True))
    assert all(first != second for first, second in pairs)
    assert sum(first for first, _ in pairs) == len(pairs) / 2
    assert all(is_measured(next_measured(slot)) for slot in range(1024))


def test_periodic_work_has_its_normal_rate_in_the_time_that_counts() -> None:
    counted_ns = sum(SLOT_NS - SETTLE_NS for slot in range(SLOTS_PER_BLOCK) if is_measured(slot))
    times_per_block = SLOTS_PER_BLOCK * SLOT_NS / (INTERVAL_FACTOR * 1e9)
    assert times_per_block == pytest.approx(counted_ns / 1e9)


def test_blocks_sum_all_workers_and_need_all_of_them(tmp_path: Path) -> None:
    slots, short_slots = (
        range(5 * SLOTS_PER_BLOCK - 1, 9 * SLOTS_PER_BLOCK),
        range(6 * SLOTS_PER_BLOCK, 9 * SLOTS_PER_BLOCK - 1),
    )
    first = read_worker_slots(write_marks(tmp_path / "1", slots, 98, 100))
    second = read_worker_slots(write_marks(tmp_path / "2", short_slots, 49, 50))
    blocks = complete_blocks([first, second], [set(range(9 * SLOTS_PER_BLOCK))])
    assert [(round(block.measured), round(block.unmeasured)) for block in blocks] == [(1470, 1500)] * 2
    assert slowdown(blocks) == pytest.approx(0.02)


def test_block_in_which_an_agent_sampled_too_late_does_not_count(tmp_path: Path) -> None:
    worker = read_worker_slots(write_marks(tmp_path / "1", range(4 * SLOTS_PER_BLOCK), 98, 100))
    late = next_measured(SLOTS_PER_BLOCK)
    measured = {slot for slot in range(4 * SLOTS_PER_BLOCK) if is_measured(slot)}
    sampled = [AgentSlot(slot, slot * SLOT_NS + (SLOT_NS if slot == late else SLOT_NS // 2)) for slot in measured]
    (tmp_path / "agent").write_bytes(b"\n".join(map(msgspec.json.encode, sampled)))
    agent = read_agent_slots(tmp_path / "agent")
    assert agent == measured - {late}
    assert len(complete_blocks([worker], [measured])) == 4
    assert len(complete_blocks([worker], [measured, agent])) == 3


@pytest.mark.parametrize("recording", [True, False])
def test_worker_that_ignores_the_slots_is_an_error(tmp_path: Path, recording: bool) -> None:
    notes = write_marks(tmp_path / "1", range(6), 100, 100, recording=recording)
    with pytest.raises(RuntimeError, match="exactly in measured slots"):
        read_worker_slots(notes)


def test_cost_in_one_of_many_blocks_counts() -> None:
    blocks = [Block(1000, 1000, 0.0)] * 9 + [Block(800, 1000, 0.0)]
    assert slowdown(blocks) == pytest.approx(0.02)


def test_confidence_interval_contains_the_true_slowdown_about_as_often_as_stated() -> None:
    rng = random.Random(1)

    def noisy_blocks() -> list[Block]:
        return [Block(980 * rng.lognormvariate(0, 0.03), 1000 * rng.lognormvariate(0, 0.03), 0.0) for _ in range(40)]

    intervals = [slowdown_interval(noisy_blocks()) for _ in range(40)]
    assert sum(low <= 0.02 <= high for low, high in intervals) >= 33


def test_real_run_follows_the_slots() -> None:
    """One of five blocks is enough: on a busy machine a process may wake up too late for a slot."""
    seconds = 5 * SLOTS_PER_BLOCK * SLOT_NS / 1e9
    assert run_interleaved(strategy="ps-async", layout="pw w", stop=f"seconds={seconds}")
