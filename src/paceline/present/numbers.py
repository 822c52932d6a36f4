"""Formats numbers for people, the same way in tables, sentences and charts. A missing value is shown as `-`."""

from collections.abc import Mapping, Sequence

from paceline.present.thresholds import SMALLEST_PHASE_SHARE, SMALLEST_TRAFFIC_MB_S

MISSING = "-"


def number(value: float | None) -> str:
    """Three significant digits, with a comma between thousands."""
    if value is None or value != value:
        return MISSING
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


def decimals(value: float, digits: int | None) -> str:
    """`digits` digits after the decimal point; three significant digits if `digits` is None."""
    return number(value) if digits is None else f"{value:,.{digits}f}"


def seconds(value: float | None) -> str:
    return MISSING if value is None else f"{number(value)} s"


def milliseconds(seconds_: float) -> str:
    """0.0246 -> `24.6 ms`; in seconds if it is one or more."""
    return f"{seconds_ * 1e3:.3g} ms" if seconds_ < 0.9995 else f"{seconds_:.2f} s"


def percent(share: float | None, digits: int = 0) -> str:
    """0.79 -> `79 %`."""
    return MISSING if share is None else f"{share * 100:,.{digits}f} %"


def accuracy(share: float | None) -> str:
    return percent(share, digits=2)


def loss(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}" if abs(value) < 1e4 else f"{value:.3g}"


def batch(value: int) -> str:
    """0 is the batch of a workload that trains nothing."""
    return str(value) if value else MISSING


def amount(value: int) -> str:
    """With a comma between thousands; 0 is missing."""
    return f"{value:,}" if value else MISSING


def exact(value: float | None) -> str:
    """Ten significant digits, for values that readers compare digit by digit."""
    return MISSING if value is None else f"{value:,.10g}"


def traffic(mb_s: float) -> str:
    return number(mb_s) if mb_s >= SMALLEST_TRAFFIC_MB_S else MISSING


def count(amount: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{amount:,} {noun}" + ("" if amount == 1 else "s")


def first_items(items: Sequence[str], most: int = 6) -> str:
    """`w0 0.20, w1 0.31 and 4 more`: the first items, and how many are not shown."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def median_and_range(median: float, lowest: float, highest: float, digits: int | None = None) -> str:
    """`1.24 [1.10–1.46]`; only the median if all repeats are shown as the same number."""
    shown = decimals(median, digits)
    places = len(shown.partition(".")[2])
    low, high = (f"{value:,.{places}f}" for value in (lowest, highest))
    return shown if low == high else f"{shown} [{low}–{high}]"


def phase_shares(phases: Mapping[str, float], most: int = 9) -> str:
    """`compute 60 %, wait 30 %`: the largest phases first, from their seconds."""
    total = sum(phases.values())
    if not total:
        return MISSING
    ranked = sorted(phases.items(), key=lambda item: -item[1])[:most]
    shares = [(phase, spent / total) for phase, spent in ranked]
    return ", ".join(f"{phase} {percent(share)}" for phase, share in shares if share >= SMALLEST_PHASE_SHARE)


def rate(per_second: float) -> str:
    """A number per second; `0` if it is exactly that."""
    return number(per_second) if per_second else "0"


def duration(value: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60:02d} min"
