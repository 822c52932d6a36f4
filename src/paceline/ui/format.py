"""Figures as people read them."""

from paceline import units
from paceline.analyze.repeats import Spread
from paceline.store.result import Result


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{units.short(value)} s"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.2f} %"


def number(value: float | None) -> str:
    return "-" if value is None else units.short(value)


def loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if abs(value) < 1e4 else f"{value:.3g}"


def batch(value: int) -> str:
    return str(value) if value else "-"


def exact(value: float | None) -> str:
    """What is to be compared with another digit by digit."""
    return "-" if value is None else f"{value:,.10g}"


def spread(value: Spread | None, *, scale: float = 1.0, digits: int | None = None) -> str:
    if value is None:
        return "-"

    def show(figure: float) -> str:
        return f"{figure * scale:.{digits}f}" if digits is not None else units.short(figure * scale)

    return show(value.mean) if value.deviation is None else f"{show(value.mean)} ± {show(value.deviation)}"


def steps_per_worker(result: Result) -> str:
    return " ".join(f"{worker.steps:,}" for worker in result.workers) or "-"


def phase_shares(phases: dict[str, float], most: int = 9) -> str:
    total = sum(phases.values())
    if not total:
        return "-"
    ranked = sorted(phases.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds_ / total:.0%}" for name, seconds_ in ranked[:most] if seconds_ / total >= 0.005)
