"""An agent that samples and ships only when it is the turn of measuring, then as often as ever, and notes it."""

import os
import threading
from pathlib import Path
from unittest import mock

import msgspec

from bench.turn import BLOCK, SETTLE_NS, STRETCH, Watched, next_measured, seconds_until, turn_at
from paceline.agent import sampler, sampling_loop
from paceline.agent.sampler import Sampler
from paceline.recording.recorder import clock_ns

# Not all at the same moment; well after a worker's mark, and with time to be done within the turn.
_INTO_S = (SETTLE_NS + 10_000_000) / 1e9 + 0.015 * (os.getpid() % 4)


def watch_in_turns(folder: Path) -> None:
    notes = folder / f"agent-{os.getpid()}"

    def sample_and_ship(counts: Sampler, ship: sampling_loop.Ship, closing: threading.Event, _hz: float) -> None:
        sampling_loop.use_batch_scheduling()
        turn = turn_at(clock_ns())
        shipped, watched = turn // BLOCK, list[Watched]()
        while not closing.wait(seconds_until(turn := next_measured(turn), _INTO_S)):
            if turn_at(clock_ns()) > turn:
                continue  # It slept through its turn; there is no making up for it in another.
            counts.read_counters()
            if turn // BLOCK > shipped:
                ship(counts.take_samples())
                shipped = turn // BLOCK
            watched.append(Watched(turn, clock_ns()))
        ship(counts.take_samples())
        # At the end: to write each down when it was made would count as measuring.
        notes.write_bytes(msgspec.json.Encoder().encode_lines(watched))

    mock.patch.object(sampling_loop, "sample_and_ship", sample_and_ship).start()
    for name in ("CHILDREN_EVERY_NS", "THREADS_EVERY_NS"):
        mock.patch.object(sampler, name, round(STRETCH * getattr(sampler, name))).start()
