"""Measuring on and off in turns inside one run. Two runs on one machine differ by more than measuring costs;
neighbouring tenths of a second of one run, taken many times, do not."""

import os
import tempfile
from itertools import pairwise
from pathlib import Path
from unittest import mock

import msgspec

from bench.measure import result_of
from bench.quiet import MOST_STOLEN
from bench.turn import BLOCK, FOLDER, TURN_NS, Mark, measured

_HERE = Path(__file__).parent


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
    def slower(self) -> float:
        return 1 - self.on / self.off

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN


def in_turns_inside(**fields: object) -> list[Block]:
    """One run of logreg that is measured every other turn."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        with mock.patch.dict(os.environ, _environment(folder)):
            # An evaluation would fall into one turn and not into the other.
            result = result_of("logreg", eval_every=10**9, **fields)
        noted = [turns(path) for path in Path(folder).iterdir()]
    workers = [found for found in noted if found]
    if len(workers) != len(result.workers):
        raise RuntimeError(f"{len(workers)} of {len(result.workers)} workers took turns")
    return blocks(workers)


def _environment(folder: str) -> dict[str, str]:
    path = [str(_HERE / "turning"), str(_HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {FOLDER: folder, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def turns(notes: Path) -> dict[int, Turn]:
    """Of a worker, by number."""
    marks = [msgspec.json.decode(line, type=Mark) for line in notes.read_bytes().splitlines()]
    found = {}
    for settled, ended in pairwise(marks):
        if settled.turn == ended.turn:
            if (ended.records > settled.records) != measured(ended.turn):
                raise RuntimeError("a worker recorded, or did not, when it was not the turn for it")
            seconds, stolen_s = (ended.t_ns - settled.t_ns) / 1e9, ended.stolen_s - settled.stolen_s
            found[ended.turn] = Turn(ended.step - settled.step, seconds, stolen_s)
    return found


def blocks(workers: list[dict[int, Turn]]) -> list[Block]:
    """Those that all workers trained through."""
    whole = set.intersection(*map(set, workers))
    starts = sorted(number for number in whole if number % BLOCK == 0)
    return [_block(workers, start) for start in starts if whole.issuperset(range(start, start + BLOCK))]


def _block(workers: list[dict[int, Turn]], start: int) -> Block:
    of = {on: [number for number in range(start, start + BLOCK) if measured(number) is on] for on in (True, False)}
    first = workers[0]
    return Block(
        on=sum(_pace([worker[number] for number in of[True]]) for worker in workers),
        off=sum(_pace([worker[number] for number in of[False]]) for worker in workers),
        stolen=sum(first[number].stolen_s for number in range(start, start + BLOCK)) / (BLOCK * TURN_NS / 1e9),
    )


def _pace(taken: list[Turn]) -> float:
    return sum(turn.steps for turn in taken) / sum(turn.seconds for turn in taken)


def middle(values: list[float]) -> tuple[float, float]:
    """Where the median of such values is, at 95 %: by their order alone, however they are spread."""
    ordered, reach = sorted(values), 0.98 * len(values) ** 0.5
    last = len(values) - 1
    return ordered[max(0, int(last / 2 - reach))], ordered[min(last, round(last / 2 + reach + 0.5))]
