"""Whose turn it is. All processes of a run on this machine read one clock, so each knows without being told."""

import time

import msgspec

TURN_NS = 125_000_000
"""Short: on a shared machine the pace wavers as much from one tenth of a second to the next as from one second to the
next, so many short turns tell far more than a few long ones."""
SETTLE_NS = 25_000_000
"""At the start of a turn there may be something of the one before on the way."""
BLOCK = 16
"""Turns, half of them measured. In what counts of these, eight tenths of a second, an agent samples eight times and
ships once, as ever."""
STRETCH = BLOCK * TURN_NS / (BLOCK // 2 * (TURN_NS - SETTLE_NS))
"""By so much longer is a block than what counts of its measured turns. What is done every few seconds is done only in
these: it must be so much rarer, to be as often as ever in what counts."""
FOLDER = "PACELINE_BENCH_TURNS"
"""Of the environment: where workers note how far they are."""


class Watched(msgspec.Struct, frozen=True):
    """An agent's work in a turn."""

    turn: int
    ended_ns: int


class Mark(msgspec.Struct, frozen=True):
    """How far a worker was when a turn had settled, and when it ended."""

    turn: int
    t_ns: int
    step: int
    records: int
    stolen_s: float
    """All that the machine below has ever taken away of the cores."""


def turn_at(t_ns: int) -> int:
    return t_ns // TURN_NS


def measured(turn: int) -> bool:
    """By the Thue-Morse sequence: of two turns one is, and what drifts favours neither."""
    return turn.bit_count() % 2 == 0


def next_measured(turn: int) -> int:
    return next(later for later in range(turn + 1, turn + 4) if measured(later))


def seconds_until(turn: int, into_s: float) -> float:
    return max(0.0, (turn * TURN_NS - time.monotonic_ns()) / 1e9 + into_s)
