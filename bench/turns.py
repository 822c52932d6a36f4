"""Measuring on and off in turns inside one run. Two runs on one machine differ by more than measuring costs;
neighbouring tenths of a second of one run, taken many times, do not."""

import os
import random
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

import msgspec

from bench.measure import result_of
from bench.quiet import MOST_STOLEN
from bench.turn import BLOCK, FOLDER, STRETCH, Mark, Watched, measured, turn_at
from paceline.control import tensorboard_writer

_HERE = Path(__file__).parent
_TRIES = 2000


class Turn(msgspec.Struct, frozen=True):
    """Of one worker."""

    steps: int
    seconds: float
    stolen_s: float


class Block(msgspec.Struct, frozen=True):
    """Updates/s in as many turns that were measured as that were not."""

    on: float
    off: float
    stolen: float
    """Cores that the machine below took away."""

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN


def in_turns_inside(**fields: object) -> list[Block]:
    """One run of logreg that is measured every other turn: those blocks in which all was as it should be."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        seldom = mock.patch.object(tensorboard_writer, "WRITE_EVERY_S", STRETCH * tensorboard_writer.WRITE_EVERY_S)
        with seldom, mock.patch.dict(os.environ, _environment(folder)):
            # An evaluation would fall into one turn and not into the other.
            result = result_of("logreg", eval_every=10**9, **fields)
        workers = [found for path in Path(folder).glob("task-*") if (found := turns(path))]
        agents = [watched(path) for path in Path(folder).glob("agent-*")]
    if len(workers) != len(result.workers) or len(agents) != len(result.hosts):
        raise RuntimeError(f"{len(workers)} workers and {len(agents)} agents took turns, and not all")
    return blocks(workers, agents)


def _environment(folder: str) -> dict[str, str]:
    path = [str(_HERE / "turning"), str(_HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {FOLDER: folder, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def turns(notes: Path) -> dict[int, Turn]:
    """Of a worker, by number."""
    marks = [msgspec.json.decode(line, type=Mark) for line in notes.read_bytes().splitlines()]
    found = {}
    for settled, ended in pairwise(marks):
        if settled.turn == ended.turn:
            steps = ended.step - settled.step
            records = ended.records - settled.records
            # A long phase is a record of its own.
            if (records < steps) if measured(ended.turn) else records:
                raise RuntimeError("a worker recorded, or did not, when it was not the turn for it")
            seconds, stolen_s = (ended.t_ns - settled.t_ns) / 1e9, ended.stolen_s - settled.stolen_s
            found[ended.turn] = Turn(steps, seconds, stolen_s)
    return found


def watched(notes: Path) -> set[int]:
    """The turns in which an agent did its work, and was done with it in time."""
    noted = [msgspec.json.decode(line, type=Watched) for line in notes.read_bytes().splitlines()]
    return {one.turn for one in noted if turn_at(one.ended_ns) == one.turn}


def blocks(workers: list[dict[int, Turn]], agents: list[set[int]]) -> list[Block]:
    """Those that all workers trained through and all agents watched."""
    trained = set.intersection(*map(set, workers))
    seen = set.intersection(*agents)
    whole = {turn for turn in trained if turn in seen or not measured(turn)}
    starts = sorted(turn for turn in whole if turn % BLOCK == 0)
    return [_block(workers, start) for start in starts if whole.issuperset(range(start, start + BLOCK))]


def _block(workers: list[dict[int, Turn]], start: int) -> Block:
    numbers = range(start, start + BLOCK)
    on = [[worker[turn] for turn in numbers if measured(turn)] for worker in workers]
    off = [[worker[turn] for turn in numbers if not measured(turn)] for worker in workers]
    first = [workers[0][turn] for turn in numbers]
    stolen = sum(turn.stolen_s for turn in first) / sum(turn.seconds for turn in first)
    return Block(sum(map(_pace, on)), sum(map(_pace, off)), stolen)


def _pace(taken: list[Turn]) -> float:
    return sum(turn.steps for turn in taken) / sum(turn.seconds for turn in taken)


def slower(found: Sequence[Block]) -> float:
    """By how much measuring slowed all of these down. Not a median: what is done in few blocks costs, too."""
    return 1 - sum(block.on for block in found) / sum(block.off for block in found)


def interval(found: Sequence[Block]) -> tuple[float, float]:
    """Of `slower`, at 95 %: by drawing from the blocks again and again."""
    draw = random.Random(1)
    tries = sorted(slower(draw.choices(found, k=len(found))) for _ in range(_TRIES))
    return tries[round(0.025 * _TRIES)], tries[round(0.975 * _TRIES)]
