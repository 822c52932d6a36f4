"""The agent's loop: samples the host at a fixed rate, and ships samples, step records and log lines in batches.

They are shipped in batches because each message costs the controller more than the samples in it.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from paceline.agent.sampler import Sampler
from paceline.messages import HostSample

SHIP_EVERY_S = 0.8
"""Seconds between two shipments. A shorter interval loses fewer samples if this agent is killed; a longer one costs the
controller less, which needs a millisecond or more for each shipment."""

Ship = Callable[[list[HostSample]], None]
"""Sends these samples, and the new records and log lines of the tasks, to the controller."""


def sample_and_ship(sampler: Sampler, ship: Ship, stop_requested: threading.Event, sample_hz: float) -> None:
    """Sample and ship until `stop_requested` is set; samples not yet shipped are shipped then.

    With `sample_hz` 0 the host is not sampled, but `ship` is still called for the records and logs of the tasks.
    """
    use_batch_scheduling()
    period = 1 / sample_hz if sample_hz else math.inf
    ship_due = time.monotonic()
    sample_due = ship_due if sample_hz else math.inf
    while not stop_requested.wait(max(0.0, min(sample_due, ship_due) - time.monotonic())):
        if time.monotonic() >= sample_due:
            sampler.read_counters()
            # Skip the samples that were missed: two samples right after each other contain nothing new.
            sample_due += period * max(1, math.ceil((time.monotonic() - sample_due) / period))
        if time.monotonic() >= ship_due:
            ship(sampler.take_samples())
            ship_due = time.monotonic() + SHIP_EVERY_S
    ship(sampler.take_samples())


def use_batch_scheduling() -> None:
    """Give this thread the policy SCHED_BATCH, so that it does not interrupt a training process when it wakes up.

    A scheduling policy that the user has set for the whole run, such as SCHED_IDLE, is kept.
    """
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
