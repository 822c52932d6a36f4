"""The schedule of the overhead benchmark: short time slots, in half of which the run is measured.

All processes of a run on this host read the same clock, so each one knows the current slot without communication.
"""

import time

import msgspec

SLOT_NS = 125_000_000
"""Short: on a shared machine the throughput varies as much from one tenth of a second to the next as from one second to
the next, so many short slots give a more precise result than a few long ones."""
SETTLE_NS = 25_000_000
"""The start of a slot that does not count: work of the slot before may still be in progress."""
SLOTS_PER_BLOCK = 16
"""A block has as many measured slots as other ones. The time of its measured slots that counts is 0.8 s, in which an
agent samples eight times and ships once, at its normal rates."""
INTERVAL_FACTOR = SLOTS_PER_BLOCK * SLOT_NS / (SLOTS_PER_BLOCK // 2 * (SLOT_NS - SETTLE_NS))
"""How much longer a block is than the time of its measured slots that counts. Work that an agent does every few seconds
is done only in that time; its interval is multiplied by this factor, so that it happens there at its normal rate."""
NOTES_VARIABLE = "PACELINE_BENCH_NOTES"
"""The environment variable with the folder into which tasks and agents write their progress."""


class AgentSlot(msgspec.Struct, frozen=True):
    """A slot in which an agent sampled."""

    slot: int
    ended_ns: int


class WorkerMark(msgspec.Struct, frozen=True):
    """The progress of a worker, written when a slot has settled and when it has ended."""

    slot: int
    t_ns: int
    step: int
    records: int
    stolen_s: float
    """CPU seconds stolen from this virtual machine since boot."""


def slot_at(t_ns: int) -> int:
    return t_ns // SLOT_NS


def is_measured(slot: int) -> bool:
    """Whether the run is measured in a slot.

    Follows the Thue-Morse sequence: one slot of each pair is measured, and a slow drift of the machine's speed affects
    both kinds of slots equally.
    """
    return slot.bit_count() % 2 == 0


def next_measured(slot: int) -> int:
    return next(later for later in range(slot + 1, slot + 4) if is_measured(later))


def seconds_until(slot: int, offset_s: float) -> float:
    """How long until `offset_s` after the start of a slot; 0 if that has passed."""
    return max(0.0, (slot * SLOT_NS - time.monotonic_ns()) / 1e9 + offset_s)
