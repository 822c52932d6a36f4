"""Measures what recording costs by turning it on and off in time slots of one run.

Two runs on one machine differ by more than recording costs; neighbouring tenths of a second of one run, taken many
times, do not.
"""

import os
import random
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

import msgspec

from bench.cpu_steal import MAX_STOLEN_CORES
from bench.measure import run_once
from bench.slots import (
    INTERVAL_FACTOR,
    NOTES_VARIABLE,
    SLOTS_PER_BLOCK,
    AgentSlot,
    WorkerMark,
    is_measured,
    slot_at,
)
from paceline.control import tensorboard_writer

_HERE = Path(__file__).parent
_RESAMPLES = 2000


class WorkerSlot(msgspec.Struct, frozen=True):
    """What one worker did in the part of a slot that counts."""

    steps: int
    seconds: float
    stolen_s: float


class Block(msgspec.Struct, frozen=True):
    """Updates per second of a block of slots, in those that were measured and in the others."""

    measured: float
    unmeasured: float
    stolen_cores: float

    @property
    def is_disturbed(self) -> bool:
        return self.stolen_cores > MAX_STOLEN_CORES


def run_interleaved(**fields: object) -> list[Block]:
    """Run logreg once, measured in every other slot; returns the complete blocks."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        rare_writes = mock.patch.object(
            tensorboard_writer, "WRITE_EVERY_S", INTERVAL_FACTOR * tensorboard_writer.WRITE_EVERY_S
        )
        with rare_writes, mock.patch.dict(os.environ, _environment(folder)):
            # No evaluations: one would take time from a single slot.
            result = run_once("logreg", eval_every=10**9, **fields)
        workers = [slots for path in Path(folder).glob("task-*") if (slots := read_worker_slots(path))]
        agents = [read_agent_slots(path) for path in Path(folder).glob("agent-*")]
    if len(workers) != len(result.workers) or len(agents) != len(result.hosts):
        raise RuntimeError(
            f"only {len(workers)} of {len(result.workers)} workers and {len(agents)} of {len(result.hosts)} agents"
            " followed the slots: the overhead cannot be computed"
        )
    return complete_blocks(workers, agents)


def _environment(folder: str) -> dict[str, str]:
    path = [str(_HERE / "slot_patches"), str(_HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {NOTES_VARIABLE: folder, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def read_worker_slots(notes: Path) -> dict[int, WorkerSlot]:
    """A worker's slots by number; RuntimeError if it recorded in the wrong slots."""
    marks = [msgspec.json.decode(line, type=WorkerMark) for line in notes.read_bytes().splitlines()]
    slots = {}
    for settled, ended in pairwise(marks):
        if settled.slot == ended.slot:
            steps = ended.step - settled.step
            records = ended.records - settled.records
            # There may be more records than steps: a long phase gets a record of its own.
            if (records < steps) if is_measured(ended.slot) else records:
                raise RuntimeError(
                    f"a worker wrote {records} records for {steps} steps in slot {ended.slot}: steps must be recorded"
                    " exactly in measured slots"
                )
            seconds, stolen_s = (ended.t_ns - settled.t_ns) / 1e9, ended.stolen_s - settled.stolen_s
            slots[ended.slot] = WorkerSlot(steps, seconds, stolen_s)
    return slots


def read_agent_slots(notes: Path) -> set[int]:
    """The slots in which an agent sampled and finished before the slot ended."""
    sampled = [msgspec.json.decode(line, type=AgentSlot) for line in notes.read_bytes().splitlines()]
    return {entry.slot for entry in sampled if slot_at(entry.ended_ns) == entry.slot}


def complete_blocks(workers: list[dict[int, WorkerSlot]], agents: list[set[int]]) -> list[Block]:
    """The blocks in which all workers trained in all slots and all agents sampled in all measured slots."""
    trained = set.intersection(*map(set, workers))
    sampled = set.intersection(*agents)
    complete = {slot for slot in trained if slot in sampled or not is_measured(slot)}
    starts = sorted(slot for slot in complete if slot % SLOTS_PER_BLOCK == 0)
    return [_block(workers, start) for start in starts if complete.issuperset(range(start, start + SLOTS_PER_BLOCK))]


def _block(workers: list[dict[int, WorkerSlot]], start: int) -> Block:
    numbers = range(start, start + SLOTS_PER_BLOCK)
    measured = [[worker[slot] for slot in numbers if is_measured(slot)] for worker in workers]
    unmeasured = [[worker[slot] for slot in numbers if not is_measured(slot)] for worker in workers]
    # CPU steal is a number of the whole machine, so one worker's notes are enough.
    first = [workers[0][slot] for slot in numbers]
    stolen_cores = sum(slot.stolen_s for slot in first) / sum(slot.seconds for slot in first)
    return Block(sum(map(_steps_per_s, measured)), sum(map(_steps_per_s, unmeasured)), stolen_cores)


def _steps_per_s(slots: list[WorkerSlot]) -> float:
    return sum(slot.steps for slot in slots) / sum(slot.seconds for slot in slots)


def slowdown(blocks: Sequence[Block]) -> float:
    """The fraction by which measuring slowed these blocks down. Of the sums, not the median over blocks: work that is
    done in only a few blocks counts, too."""
    return 1 - sum(block.measured for block in blocks) / sum(block.unmeasured for block in blocks)


def slowdown_interval(blocks: Sequence[Block]) -> tuple[float, float]:
    """The 95 % confidence interval of the slowdown, by bootstrapping over the blocks."""
    rng = random.Random(1)
    resampled = sorted(slowdown(rng.choices(blocks, k=len(blocks))) for _ in range(_RESAMPLES))
    return resampled[round(0.025 * _RESAMPLES)], resampled[round(0.975 * _RESAMPLES)]
