"""When an agent looks and ships, and at whose expense."""

import os
import sys
import threading

import pytest

from paceline.agent.sampler import Sampler
from paceline.agent.sampling_loop import sample_and_ship
from paceline.messages import HostSample


def shipped(sample_hz: float, shipments: int) -> tuple[list[list[HostSample]], int | None]:
    """By an agent's thread, until so many shipments were made; and how the system schedules that thread."""
    made: list[list[HostSample]] = []
    policy: list[int] = []
    closing = threading.Event()

    def ship(samples: list[HostSample]) -> None:
        made.append(samples)
        if hasattr(os, "sched_getscheduler"):
            policy.append(os.sched_getscheduler(0))
        if len(made) == shipments:
            closing.set()

    thread = threading.Thread(target=sample_and_ship, args=(Sampler(), ship, closing, sample_hz))
    thread.start()
    thread.join()
    return made, policy[0] if policy else None


def test_each_sample_is_shipped_once_and_in_order() -> None:
    made, _ = shipped(sample_hz=50, shipments=3)
    times = [sample.t_ns for samples in made for sample in samples]
    assert times == sorted(set(times))
    assert len(made) == 4, "what is left at the end is shipped, too"
    # However late they came: no two looks in a row, so never more than belong to the time.
    assert 3 <= len(times) <= 1 + (times[-1] - times[0]) / 1e9 * 50 * 1.5


def test_without_samples_there_are_still_shipments() -> None:
    made, _ = shipped(sample_hz=0, shipments=2)
    assert made == [[], [], []]


@pytest.mark.skipif(sys.platform != "linux", reason="how threads are scheduled is a matter of the system")
def test_it_takes_no_core_from_a_step_and_asks_the_same_of_nobody_else() -> None:
    _, policy = shipped(sample_hz=10, shipments=1)
    assert policy == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
