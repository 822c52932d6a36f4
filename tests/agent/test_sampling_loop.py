"""When an agent samples and ships, and how its sampling thread is scheduled."""

import os
import sys
import threading

import pytest

from paceline.agent.sampler import Sampler
from paceline.agent.sampling_loop import sample_and_ship
from paceline.messages import HostSample


def ship_from_thread(sample_hz: float, count: int) -> tuple[list[list[HostSample]], int | None]:
    """What a sampling thread shipped until `closing` was set at shipment `count`, and its scheduling policy."""
    shipments: list[list[HostSample]] = []
    policy: list[int] = []
    closing = threading.Event()

    def ship(samples: list[HostSample]) -> None:
        shipments.append(samples)
        if hasattr(os, "sched_getscheduler"):
            policy.append(os.sched_getscheduler(0))
        if len(shipments) == count:
            closing.set()

    thread = threading.Thread(target=sample_and_ship, args=(Sampler(), ship, closing, sample_hz))
    thread.start()
    thread.join()
    return shipments, policy[0] if policy else None


def test_each_sample_is_shipped_once_and_in_order() -> None:
    shipments, _ = ship_from_thread(sample_hz=50, count=3)
    times = [sample.t_ns for samples in shipments for sample in samples]
    assert times == sorted(set(times))
    assert len(shipments) == 4, "the samples that remain at the end are shipped, too"
    # Late samples are not made up for, so there are never more than the sampling rate gives.
    assert 3 <= len(times) <= 1 + (times[-1] - times[0]) / 1e9 * 50 * 1.5


def test_tasks_are_still_shipped_without_sampling() -> None:
    shipments, _ = ship_from_thread(sample_hz=0, count=2)
    assert shipments == [[], [], []]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has SCHED_BATCH")
def test_only_the_sampling_thread_uses_batch_scheduling() -> None:
    _, policy = ship_from_thread(sample_hz=10, count=1)
    assert policy == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
