"""An agent that samples and ships only when it is the turn of measuring, then as often as ever."""

import os
import threading
from unittest import mock

from bench.turn import BLOCK, SETTLE_NS, next_measured, seconds_until, turn_at
from paceline.agent import beat
from paceline.agent.protocol import HostSample
from paceline.agent.sampler import Sampler
from paceline.train.recorder import clock_ns


def watch_in_turns() -> None:
    mock.patch.object(beat, "sample_and_ship", _sample_and_ship).start()


def _sample_and_ship(sampler: Sampler, ship: beat.Ship, closing: threading.Event, _hz: float) -> None:
    # Agents do not all wake at the same moment, and each has time to be done within its turn.
    into_s = SETTLE_NS / 1e9 + 0.015 * (os.getpid() % 4)
    turn, waiting = turn_at(clock_ns()), list[HostSample]()
    shipped = turn // BLOCK
    while not closing.wait(seconds_until(turn := next_measured(turn), into_s)):
        waiting.append(sampler.sample())
        if turn // BLOCK > shipped:
            ship(waiting)
            waiting, shipped = [], turn // BLOCK
    ship(waiting)
