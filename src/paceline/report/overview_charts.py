"""Charts of all configurations: metrics and phases of each, over the number of workers and over batch sizes."""

from collections.abc import Callable, Sequence
from typing import Any

from paceline.analyze.metrics import ACCURACY, EXAMPLES, LOSS, TO_TARGET, UPDATES, Metric
from paceline.analyze.repeats import Group, Spread, group_names, name_without
from paceline.present.colours import IDEAL_COLOUR, PHASE_COLOURS
from paceline.present.labels import PHASES_CAPTION
from paceline.recording.layout import SHOWN_NAMES
from paceline.report.chart import Chart, Layout, Trace, View, bars_height, line_colour, line_dash
from paceline.report.html import chart_text
from paceline.store.result import Result

_METRICS = (TO_TARGET, EXAMPLES, UPDATES, ACCURACY, LOSS)
"""In the order of their views; a chart opens with the first for which there are values."""
_MOST_BARS = 40
"""Most configurations in a bar chart."""
_RANGE_CAPTION = "error bars: range over the repeats"


def overview_charts(groups: Sequence[Group]) -> list[Chart]:
    """None for a single configuration."""
    usable = [group for group in groups if group.ok]
    if len(usable) < 2:
        return []
    charts = [metrics_by_configuration(usable), phases(usable), scaling(usable), batches(usable)]
    return [chart for chart in charts if chart]


def metrics_by_configuration(groups: Sequence[Group]) -> Chart | None:
    shown, names = groups[:_MOST_BARS], group_names(groups)
    views = []
    for metric in _METRICS:
        points = [
            (name, spread) for name, group in zip(names, shown, strict=False) if (spread := group.spread(metric.read))
        ]
        if points:
            views.append(View(metric.title, [_bars(points, metric)], _horizontal(metric.title)))
    limit = f" The chart shows {_MOST_BARS} of {len(groups)} configurations." if len(groups) > _MOST_BARS else ""
    return Chart(
        key="metrics-by-configuration", title="Metrics by configuration", views=views,
        caption=f"Bars: median; {_RANGE_CAPTION}.{limit}",
        height=bars_height(len(shown), 28),
    ) if views else None  # fmt: skip


def phases(groups: Sequence[Group]) -> Chart | None:
    shown, names = groups[:_MOST_BARS], [chart_text(name) for name in group_names(groups)]
    seconds = [_phase_seconds(group) for group in shown]
    traces: list[Trace] = [
        {
            "type": "bar", "orientation": "h", "name": phase, "y": names[: len(shown)],
            "x": [100 * spent.get(phase, 0.0) / (sum(spent.values()) or 1.0) for spent in seconds],
            "marker": {"color": PHASE_COLOURS[phase]}, "hovertemplate": "%{x:.1f} %",
        }
        for phase in SHOWN_NAMES
        if any(spent.get(phase) for spent in seconds)
    ]  # fmt: skip
    return Chart(
        key="phases-by-configuration",
        title="Worker time by phase and configuration",
        caption=PHASES_CAPTION,
        views=[View("", traces, _horizontal("share of the workers' time (%)") | {"barmode": "stack"})],
        height=bars_height(len(shown), 28),
    ) if traces else None  # fmt: skip


def scaling(groups: Sequence[Group]) -> Chart | None:
    """Throughput over the number of workers, with a line for each set of otherwise equal configurations."""
    lines = _lines(groups, "layout", lambda result: len(result.workers))
    if not lines:
        return None
    metric = EXAMPLES if any(group.first.batch for group in groups) else UPDATES
    absolute, relative = [], []
    for number, (name, line) in enumerate(lines.items()):
        points = _best_of_each(line, metric)
        if len(points) < 2:
            continue
        absolute.append(_line(points, metric, number) | {"name": chart_text(name)})
        relative.append(_line(_speedup(points), metric, number) | {"name": chart_text(name)})
    if not absolute:
        return None
    fewest, most = min(trace["x"][0] for trace in relative), max(trace["x"][-1] for trace in relative)
    ideal: Trace = {"type": "scatter", "mode": "lines", "name": "ideal", "x": [fewest, most], "y": [1, most / fewest]}
    ideal |= {"line": {"color": IDEAL_COLOUR, "dash": "dot"}, "hoverinfo": "skip"}
    x_options = {"dtick": 1} if most <= 16 else {}
    return Chart(
        key="scaling",
        title="Scaling with the number of workers",
        caption=(
            "Speed-up: throughput relative to the fewest workers of the same line; the dotted line is ideal scaling. "
            "If several layouts have the same number of workers, the line shows the fastest."
        ),
        views=[
            View(metric.title, absolute, _vertical("workers", metric.title, True, x_options)),
            View("speed-up", [*relative, ideal], _vertical("workers", "speed-up", True, x_options)),
        ],
    )


def batches(groups: Sequence[Group]) -> Chart | None:
    """Metrics over the batch size, with a line for each set of otherwise equal configurations."""
    lines = _lines(groups, "batch", lambda result: result.batch)
    views = []
    for metric in _METRICS:
        traces = []
        for number, (name, line) in enumerate(lines.items()):
            points = _best_of_each(line, metric)
            if len(points) > 1:
                traces.append(_line(points, metric, number) | {"name": chart_text(name)})
        if traces:
            sizes = sorted({group.first.batch for group in groups})
            x_options = {"type": "log", "tickvals": sizes}
            layout = _vertical("batch (examples per worker and step)", metric.title, _starts_at_zero(metric), x_options)
            views.append(View(metric.title, traces, layout))
    return Chart(
        key="batches",
        title="Metrics by batch size",
        caption=f"Points: median; {_RANGE_CAPTION}.",
        views=views,
    ) if views else None  # fmt: skip


def _lines(
    groups: Sequence[Group], setting: str, position: Callable[[Result], int]
) -> dict[str, list[tuple[int, Group]]]:
    """Groups that differ only in `setting`, by the name of the rest; empty if all have the same position."""
    if len({position(group.first) for group in groups}) < 2:
        return {}
    lines: dict[str, list[tuple[int, Group]]] = {}
    for group in groups:
        lines.setdefault(name_without(group, groups, setting), []).append((position(group.first), group))
    return {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items()}


def _best_of_each(line: Sequence[tuple[int, Group]], metric: Metric) -> list[tuple[int, Spread]]:
    """The best group at each position."""
    sign = 1 if metric.better == "more" else -1
    best: dict[int, Spread] = {}
    for position, group in line:
        spread = group.spread(metric.read)
        if spread and (position not in best or sign * spread.median > sign * best[position].median):
            best[position] = spread
    return sorted(best.items())


def _speedup(points: Sequence[tuple[int, Spread]]) -> list[tuple[int, Spread]]:
    base = points[0][1].median or 1.0
    return [(x, Spread(s.median / base, s.lowest / base, s.highest / base)) for x, s in points]


def _line(points: Sequence[tuple[int, Spread]], metric: Metric, number: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [position for position, _ in points],
        "y": [spread.median * metric.label.scale for _, spread in points],
        "error_y": _error_bars(points, metric),
        "line": {"color": line_colour(number), "dash": line_dash(number)},
        "hovertemplate": "%{y:.4s}",
    }


def _error_bars(points: Sequence[tuple[Any, Spread]], metric: Metric) -> dict[str, Any]:
    up = [(spread.highest - spread.median) * metric.label.scale for _, spread in points]
    down = [(spread.median - spread.lowest) * metric.label.scale for _, spread in points]
    return {
        "type": "data", "symmetric": False, "array": up, "arrayminus": down,
        "visible": any(up + down), "thickness": 1.2,
    }  # fmt: skip


def _bars(points: Sequence[tuple[str, Spread]], metric: Metric) -> Trace:
    """Horizontal, so that long names can be read."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": [spread.median * metric.label.scale for _, spread in points],
        "y": [chart_text(name) for name, _ in points],
        "error_x": _error_bars(points, metric),
        "marker": {"color": line_colour(0)},
        "hovertemplate": "%{y}: %{x:.4s}<extra></extra>",
    }


def _phase_seconds(group: Group) -> dict[str, float]:
    spent: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            for phase, seconds in worker.phases.items():
                spent[phase] = spent.get(phase, 0.0) + seconds
    return spent


def _vertical(x_title: str, y_title: str, from_zero: bool, x_options: dict[str, Any]) -> Layout:
    y_axis = {"title": {"text": y_title}, "rangemode": "tozero" if from_zero else "normal"}
    return {"xaxis": {"title": {"text": x_title}, **x_options}, "yaxis": y_axis}


def _horizontal(x_title: str) -> Layout:
    return {
        "xaxis": {"title": {"text": x_title}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }


def _starts_at_zero(metric: Metric) -> bool:
    """Axes of times and rates start at 0, so that a doubled value looks doubled; those of loss and accuracy do not."""
    return metric.kind != "amount"
