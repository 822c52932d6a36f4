"""Parses quantities with units and formats link rates. MB is 10^6 bytes; rates are bits per second, k is 1000."""

import re

from paceline.errors import SpecError

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:bit|bps)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kmg]?)b", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|m|h)", re.IGNORECASE)
_FRACTION = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")
MIN_LINK_BITS_S, MAX_LINK_BITS_S = 10**4, 10**11
MIN_CPUS, MAX_CPUS = 0.01, 4096
MAX_DELAY_S = 10.0
MIN_TIME_LIMIT_S, MAX_TIME_LIMIT_S = 1.0, 8760 * 3600.0
MAX_SHARE = 1e6
"""The largest fraction that is accepted: 1e6, written as 100000000%."""
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def bits_per_second(text: str) -> int:
    """`100mbit` -> 100_000_000."""
    match = _RATE.fullmatch(text.strip())
    if not match:
        raise SpecError(f"link rate '{text}' is not understood: write e.g. 100mbit or 1gbit")
    rate = float(match[1]) * _SCALE[match[2].lower()]
    if not MIN_LINK_BITS_S <= rate <= MAX_LINK_BITS_S:
        raise SpecError(f"link rate '{text}' is out of range: must be from 10kbit to 100gbit")
    return round(rate)


def size_bytes(text: str, label: str, lowest: int, highest: int) -> int:
    """`16MB` -> 16_000_000; SpecError if it is no size from `lowest` to `highest`."""
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * _SCALE[match[2].lower()] if match else 0
    if not lowest <= size <= highest:
        raise SpecError(
            f"{label} '{text}': must be a size from {_size_text(lowest)} to {_size_text(highest)}, e.g. 16MB"
        )
    return round(size)


def _size_text(size: int) -> str:
    unit = next(unit for unit in ("g", "m", "k", "") if size % _SCALE[unit] == 0)
    return f"{size // _SCALE[unit]}{unit.upper().replace('K', 'k')}B"


def rate_text(bits_s: int) -> str:
    """100_000_000 -> `100mbit`, the inverse of `bits_per_second`."""
    unit = next(unit for unit in ("g", "m", "k", "") if bits_s % _SCALE[unit] == 0)
    return f"{bits_s // _SCALE[unit]}{unit}bit"


def seconds(text: str) -> float:
    """`5ms` -> 0.005, `2h` -> 7200.0."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise SpecError(f"duration '{text}' is not understood: write e.g. 5ms or 0.2s")
    return float(match[1]) * _SECONDS[match[2].lower()]


def duration_text(duration_s: float) -> str:
    """7200.0 -> `2h`, an inverse of `seconds`."""
    unit = next((unit for unit in ("h", "m") if duration_s >= _SECONDS[unit] and not duration_s % _SECONDS[unit]), "s")
    return f"{duration_s / _SECONDS[unit]:.15g}{unit}"


def time_limit(text: str) -> float:
    """The time limit of a run in seconds: `2h` -> 7200.0."""
    match = _DURATION.fullmatch(text.strip())
    limit_s = float(match[1]) * _SECONDS[match[2].lower()] if match else 0.0
    if not MIN_TIME_LIMIT_S <= limit_s <= MAX_TIME_LIMIT_S:
        raise SpecError(f"time limit '{text}': must be a time from 1s to 8760h, e.g. 90s, 30m or 2h")
    return limit_s


def delay(text: str) -> float:
    """The latency of a link in seconds: `5ms` -> 0.005."""
    latency_s = seconds(text)
    if latency_s > MAX_DELAY_S:
        raise SpecError(f"latency '{text}' is too long: must be at most {MAX_DELAY_S:g}s")
    return latency_s


def cpus(text: str) -> float:
    """A number of cores, possibly less than one: `0.5` -> 0.5."""
    try:
        cores = float(text)
    except ValueError:
        raise SpecError(f"cpus '{text}' is not a number: write e.g. 0.5") from None
    if not MIN_CPUS <= cores <= MAX_CPUS:
        raise SpecError(f"cpus {text} is out of range: must be from {MIN_CPUS:g} to {MAX_CPUS}")
    return cores


def fraction(text: str) -> float:
    """`5%` -> 0.05, `0.05` -> 0.05."""
    match = _FRACTION.fullmatch(text.strip())
    if not match:
        raise SpecError(f"share '{text}' is not understood: write e.g. 5% or 0.05")
    share = float(match[1]) / (100 if match[2] else 1)
    if share > MAX_SHARE:
        raise SpecError(f"share '{text}': must be at most {MAX_SHARE:g}, which is {MAX_SHARE:.0%}")
    return share
