"""When an agent samples and when it ships. Sampled at a steady beat; shipped in batches, since a message costs more."""

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from paceline.agent.sampler import Sampler
from paceline.messages import HostSample

SHIP_EVERY_S = 0.8
"""At most so much is lost with the controller; each shipment costs it a millisecond or more."""

Ship = Callable[[list[HostSample]], None]
"""Send these samples, and what is new of the tasks."""


def sample_and_ship(sampler: Sampler, ship: Ship, closing: threading.Event, sample_hz: float) -> None:
    """Until `closing`; what is left then is shipped, too. Without samples (0 a second) tasks still have news."""
    interrupt_nobody()
    period = 1 / sample_hz if sample_hz else math.inf
    ship_due = time.monotonic()
    sample_due = ship_due if sample_hz else math.inf
    while not closing.wait(max(0.0, min(sample_due, ship_due) - time.monotonic())):
        if time.monotonic() >= sample_due:
            sampler.look()
            # A late sample is not made up for: two in a row would tell nothing new.
            sample_due = max(sample_due + period, time.monotonic())
        if time.monotonic() >= ship_due:
            ship(sampler.samples())
            ship_due = time.monotonic() + SHIP_EVERY_S
    ship(sampler.samples())


def interrupt_nobody() -> None:
    """From now on this thread, when it wakes up, takes a core when one is given up, and from no task in the midst of a
    step. A user who put all of it further back than that has the last word."""
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
