"""The benchmark of what measuring costs: it must not be able to flatter."""

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from bench.turn import BLOCK, SETTLE_NS, STRETCH, TURN_NS, Mark, Watched, measured, next_measured
from bench.turns import Block, blocks, in_turns_inside, interval, slower, turns, watched


def marks(path: Path, numbers: Sequence[int], on: int, off: int, *, recording: bool | None = None) -> Path:
    """What a worker notes that makes so many steps a turn; `recording`: in every turn, or in none."""
    step = records = 0
    lines = []
    for turn in numbers:
        for into_ns in (SETTLE_NS, TURN_NS):
            made = on if measured(turn) else off
            step += made
            records += made if (measured(turn) if recording is None else recording) else 0
            lines.append(msgspec.json.encode(Mark(turn, turn * TURN_NS + into_ns, step, records, 0.0)))
    path.write_bytes(b"\n".join(lines))
    return path


def test_of_two_turns_one_is_measured_and_neither_comes_first_more_often() -> None:
    numbers = [measured(turn) for turn in range(1024)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert all(a != b for a, b in pairs)
    assert sum(a for a, _ in pairs) == len(pairs) / 2
    assert all(measured(next_measured(turn)) for turn in range(1024))


def test_what_is_done_every_second_is_done_as_often_in_what_counts() -> None:
    counted_ns = sum(TURN_NS - SETTLE_NS for turn in range(BLOCK) if measured(turn))
    times_a_block = BLOCK * TURN_NS / (STRETCH * 1e9)
    assert times_a_block == pytest.approx(counted_ns / 1e9)


def test_blocks_add_up_workers_and_are_those_that_all_trained_through(tmp_path: Path) -> None:
    one = turns(marks(tmp_path / "1", range(5 * BLOCK - 1, 9 * BLOCK), on=98, off=100))
    other = turns(marks(tmp_path / "2", range(6 * BLOCK, 9 * BLOCK - 1), on=49, off=50))
    found = blocks([one, other], [set(range(9 * BLOCK))])
    assert [(round(block.on), round(block.off)) for block in found] == [(1470, 1500)] * 2
    assert slower(found) == pytest.approx(0.02)


def test_a_block_in_which_an_agent_missed_its_turn_does_not_count(tmp_path: Path) -> None:
    one = turns(marks(tmp_path / "1", range(4 * BLOCK), on=98, off=100))
    late = next_measured(BLOCK)
    everything = {turn for turn in range(4 * BLOCK) if measured(turn)}
    noted = [Watched(turn, turn * TURN_NS + (TURN_NS if turn == late else TURN_NS // 2)) for turn in everything]
    (tmp_path / "agent").write_bytes(b"\n".join(map(msgspec.json.encode, noted)))
    assert watched(tmp_path / "agent") == everything - {late}
    assert len(blocks([one], [everything])) == 4
    assert len(blocks([one], [everything, watched(tmp_path / "agent")])) == 3


@pytest.mark.parametrize("recording", [True, False])
def test_a_worker_that_does_not_take_turns_is_no_measurement(tmp_path: Path, recording: bool) -> None:
    with pytest.raises(RuntimeError, match="not the turn"):
        turns(marks(tmp_path / "1", range(6), on=100, off=100, recording=recording))


def test_what_is_done_in_one_block_of_many_counts() -> None:
    found = [Block(1000, 1000, 0.0)] * 9 + [Block(800, 1000, 0.0)]
    assert slower(found) == pytest.approx(0.02)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    draw = random.Random(1)

    def noisy() -> list[Block]:
        return [Block(980 * draw.lognormvariate(0, 0.03), 1000 * draw.lognormvariate(0, 0.03), 0.0) for _ in range(40)]

    tries = [interval(noisy()) for _ in range(40)]
    assert sum(least <= 0.02 <= most for least, most in tries) >= 33


def test_a_real_run_takes_turns() -> None:
    """One of five blocks is enough: on a busy machine somebody may sleep through a turn."""
    seconds = 5 * BLOCK * TURN_NS / 1e9
    assert in_turns_inside(strategy="ps-async", layout="pw w", stop=f"seconds={seconds}")
