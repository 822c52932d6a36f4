"""Figures as people read them."""

from paceline import units
from paceline.analyze.metrics import Metric
from paceline.analyze.repeats import Group, Spread


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


def label(name: str) -> str:
    return name.replace("_", " ")


def rate(value: float) -> str:
    """Of traffic: less than a hundredth is as good as none."""
    return units.short(value) if value >= 0.01 else "-"


def figure(of: Metric, group: Group) -> str:
    """Median ± the furthest repeat; `-` if the group has not the figure."""
    found = group.spread(of.of) if of.values(group) else None
    if found is None:
        return "-"
    middle, reach = (of.show(value) for value in (found.median, found.reach))
    if len(of.values(group)) < 2:
        return units.decimals(middle, of.digits)
    return f"{units.decimals(middle, of.digits)} ± {_as_fine(reach, middle, of.digits)}"


def spread(found: Spread | None, *, scale: float = 1.0, digits: int | None = None) -> str:
    """Median ± the furthest repeat, if there are several that differ."""
    if found is None:
        return "-"
    middle, reach = found.median * scale, found.reach * scale
    shown = units.decimals(middle, digits)
    return f"{shown} ± {_as_fine(reach, middle, digits)}" if reach else shown


def _as_fine(reach: float, middle: float, digits: int | None) -> str:
    """With as many digits after the point as its median is shown with; none if it is none."""
    shown = f"{reach:,.{len(units.decimals(middle, digits).partition('.')[2])}f}"
    return shown if float(shown.replace(",", "")) else "0"


def phase_shares(phases: dict[str, float], most: int = 9) -> str:
    total = sum(phases.values())
    if not total:
        return "-"
    ranked = sorted(phases.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds_ / total:.0%}" for name, seconds_ in ranked[:most] if seconds_ / total >= 0.005)
