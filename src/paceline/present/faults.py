"""Injected faults and the recovery from them, as table cells."""

from paceline.present.numbers import MISSING, number
from paceline.store.result import FaultResult

FAULT_COLUMNS = (
    "at (s)", "until (s)", "detected (s)", "restarted (s)", "back at full speed (s)", "updates lost",
)  # fmt: skip
"""The first two are seconds of training; detected, restarted and back at full speed are seconds after the fault."""


def fault_values(fault: FaultResult) -> list[float | None]:
    """In the order of the columns."""
    times = [fault.at_s, fault.over_s, fault.detected_s, fault.restarted_s, fault.back_at_speed_s]
    return [*times, None if fault.at_s is None else fault.updates_lost]


def fault_cells(fault: FaultResult) -> list[str]:
    """In the order of the columns."""
    if fault.at_s is None:
        return ["did not occur", *[MISSING] * (len(FAULT_COLUMNS) - 1)]
    return [*map(number, fault_values(fault)[:-1]), f"{fault.updates_lost:,}"]


def was_injected(fault: FaultResult) -> bool:
    """False for a fault that was requested but for which the run ended too early."""
    return fault.at_s is not None
