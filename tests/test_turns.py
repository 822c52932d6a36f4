"""The benchmark of what measuring costs: it must not be able to flatter."""

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from bench.turn import BLOCK, SETTLE_NS, TURN_NS, Mark, measured, next_measured
from bench.turns import blocks, in_turns_inside, middle, turns


def marks(path: Path, numbers: Sequence[int], on: int, off: int, *, recording: bool | None = None) -> Path:
    """What a worker notes that makes so many steps a turn; `recording`: in every turn, or in none."""
    step = records = 0
    lines = []
    for turn in numbers:
        for into_ns in (SETTLE_NS, TURN_NS):
            step += on if measured(turn) else off
            records += 1 if (measured(turn) if recording is None else recording) else 0
            lines.append(msgspec.json.encode(Mark(turn, turn * TURN_NS + into_ns, step, records, 0.0)))
    path.write_bytes(b"\n".join(lines))
    return path


def test_of_two_turns_one_is_measured_and_neither_comes_first_more_often() -> None:
    numbers = [measured(turn) for turn in range(1024)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert all(a != b for a, b in pairs)
    assert sum(a for a, _ in pairs) == len(pairs) / 2
    assert all(measured(next_measured(turn)) for turn in range(1024))


def test_blocks_add_up_workers_and_are_those_that_all_trained_through(tmp_path: Path) -> None:
    one = turns(marks(tmp_path / "1", range(5 * BLOCK - 1, 9 * BLOCK), on=98, off=100))
    other = turns(marks(tmp_path / "2", range(6 * BLOCK, 9 * BLOCK - 1), on=49, off=50))
    found = blocks([one, other])
    assert [(round(block.on), round(block.off)) for block in found] == [(1470, 1500)] * 2
    assert all(block.slower == pytest.approx(0.02) for block in found)


@pytest.mark.parametrize("recording", [True, False])
def test_a_worker_that_does_not_take_turns_is_no_measurement(tmp_path: Path, recording: bool) -> None:
    with pytest.raises(RuntimeError, match="not the turn"):
        turns(marks(tmp_path / "1", range(6), on=100, off=100, recording=recording))


@pytest.mark.parametrize("count", [8, 25, 36, 75])
def test_the_interval_holds_the_median_as_often_as_it_says(count: int) -> None:
    draw = random.Random(count)
    tries = [middle([draw.expovariate(1) for _ in range(count)]) for _ in range(4000)]
    true = 0.6931471805599453
    assert sum(least <= true <= most for least, most in tries) / len(tries) > 0.945


def test_a_real_run_takes_turns() -> None:
    """One of five blocks is enough: on a busy machine a worker may sleep through a turn."""
    seconds = 5 * BLOCK * TURN_NS / 1e9
    assert in_turns_inside(strategy="ps-async", layout="pw w", stop=f"seconds={seconds}")
