"""When an agent samples and when it ships. Sampled at a steady beat; shipped in batches, since a message costs more."""

import math
import threading
import time
from collections.abc import Callable

from paceline.agent.protocol import HostSample
from paceline.agent.sampler import Sampler

SHIP_EVERY_S = 0.8
"""At most so much is lost with the controller; each shipment costs it a millisecond or more."""

Ship = Callable[[list[HostSample]], None]
"""Send these samples, and what is new of the tasks."""


def sample_and_ship(sampler: Sampler, ship: Ship, closing: threading.Event, sample_hz: float) -> None:
    """Until `closing`; what is left then is shipped, too. Without samples (0 a second) tasks still have news."""
    period = 1 / sample_hz if sample_hz else math.inf
    sample_due = ship_due = time.monotonic()
    waiting: list[HostSample] = []
    while not closing.wait(max(0.0, min(sample_due, ship_due) - time.monotonic())):
        if time.monotonic() >= sample_due:
            waiting.append(sampler.sample())
            # A late sample is not made up for: two in a row would tell nothing new.
            sample_due = max(sample_due + period, time.monotonic())
        if time.monotonic() >= ship_due:
            ship(waiting)
            waiting = []
            ship_due = time.monotonic() + SHIP_EVERY_S
    ship(waiting)
