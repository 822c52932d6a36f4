"""Patches an agent to sample and ship only in measured time slots, there at its normal rates, and to note when."""

import os
import threading
from pathlib import Path
from unittest import mock

import msgspec

from bench.slots import INTERVAL_FACTOR, SETTLE_NS, SLOTS_PER_BLOCK, AgentSlot, next_measured, seconds_until, slot_at
from paceline.agent import sampler, sampling_loop
from paceline.agent.sampler import Sampler
from paceline.recording.recorder import clock_ns


def _offset_s() -> float:
    """When to sample, from the start of a slot: at another time than other agents, well after a worker's mark, and
    early enough to finish within the slot."""
    return (SETTLE_NS + 10_000_000) / 1e9 + 0.015 * (os.getpid() % 4)


def sample_in_slots(folder: Path) -> None:
    def sample_and_ship(counts: Sampler, ship: sampling_loop.Ship, closing: threading.Event, _hz: float) -> None:
        sampling_loop.use_batch_scheduling()
        # Asked here and not at import: agents may be forked from one process that has imported this module.
        notes, offset_s = folder / f"agent-{os.getpid()}", _offset_s()
        slot = slot_at(clock_ns())
        shipped_block, sampled = slot // SLOTS_PER_BLOCK, list[AgentSlot]()
        while not closing.wait(seconds_until(slot := next_measured(slot), offset_s)):
            if slot_at(clock_ns()) > slot:
                continue  # It woke up too late; sampling in another slot instead would distort that one.
            counts.read_counters()
            if slot // SLOTS_PER_BLOCK > shipped_block:
                ship(counts.take_samples())
                shipped_block = slot // SLOTS_PER_BLOCK
            sampled.append(AgentSlot(slot, clock_ns()))
        ship(counts.take_samples())
        # Written at the end: writing during the run would add to the measured overhead.
        notes.write_bytes(msgspec.json.Encoder().encode_lines(sampled))

    mock.patch.object(sampling_loop, "sample_and_ship", sample_and_ship).start()
    for name in ("CHILDREN_EVERY_NS", "THREADS_EVERY_NS"):
        mock.patch.object(sampler, name, round(INTERVAL_FACTOR * getattr(sampler, name))).start()
