"""The table of `paceline predict`."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from paceline.prediction.predictor import Interval
from paceline.prediction.results import Forecast
from paceline.present.labels import cause
from paceline.present.numbers import count, duration, number, percent
from paceline.store.result import Result
from paceline.terminal.fitting_table import Lines
from paceline.terminal.tables import align_right, plain_table

_OPTIONS = ("workload", "engine", "strategy", "layout", "batch", "hosts", "link", "cpus")
_ALWAYS = ("strategy", "layout", "batch")


def predictions_view(forecasts: Sequence[Forecast], measured: Sequence[Result] = ()) -> RenderableType:
    """One row for each prediction; with what was measured and the error, if the configurations were run."""
    shown = [name for name in _OPTIONS if name in _ALWAYS or len({getattr(one, name) for one in forecasts}) > 1]
    shown += [name for name in ("link", "cpus") if name not in shown and any(getattr(one, name) for one in forecasts)]
    with_target = any(one.to_target for one in forecasts)
    columns = [*shown, "updates/s", "80 % interval", "examples/s", "bottleneck"]
    columns += ["time to target"] * with_target + ["measured", "error"] * bool(measured)
    table = plain_table(*columns)
    align_right(table, "batch", "updates/s", "80 % interval", "examples/s", "measured", "error")
    for position, one in enumerate(forecasts):
        cells = [_setting(one, name) for name in shown]
        cells += [number(one.updates_per_s.value), interval(one.updates_per_s), number(one.examples_per_s.value)]
        cells.append(bottleneck(one))
        if with_target:
            cells.append(_time(one))
        if measured:
            result = measured[position]
            cells += [number(result.updates_per_s), error_text(one, result)]
        table.add_row(*cells)
    return Group(table, Text(), Lines(_notes(forecasts)))


def _setting(one: Forecast, name: str) -> str:
    value = getattr(one, name)
    return "-" if value is None else str(value)


def interval(value: Interval) -> str:
    return f"{number(value.low)} – {number(value.high)}"


def bottleneck(one: Forecast) -> str:
    found = one.bottleneck
    return f"{cause(found.cause)} {percent(found.share)}, {found.where}" if found.where else cause(found.cause)


def _time(one: Forecast) -> str:
    if one.to_target is None:
        return "- (asynchronous)"
    seconds = one.to_target.seconds
    return f"{duration(seconds.value)} ({duration(seconds.low)} – {duration(seconds.high)})"


def error_text(one: Forecast, result: Result) -> str:
    """By how much the prediction is higher than what was measured; marked if that is outside of the interval."""
    if not result.updates_per_s:
        return result.status
    error = one.updates_per_s.value / result.updates_per_s - 1
    inside = one.updates_per_s.low <= result.updates_per_s <= one.updates_per_s.high
    return f"{error:+.1%}" + ("" if inside else ", outside")


def _notes(forecasts: Sequence[Forecast]) -> list[str]:
    rests_on = list(dict.fromkeys(run for one in forecasts for run in one.rests_on))
    names = ", ".join(rests_on[:6]) + (f" and {len(rests_on) - 6} more" if len(rests_on) > 6 else "")
    notes = [f"rests on {count(len(rests_on), 'run')}: {names}"]
    missing = list(dict.fromkeys(line for one in forecasts for line in one.not_measured))
    if missing:
        notes.append(f"not measured, so the intervals are wider: {'; '.join(missing)}")
    return notes
