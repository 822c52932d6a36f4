"""All configurations in one figure each: side by side, where their time went, over workers and over batch sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from paceline.analyze.repeats import Group, Of, Spread
from paceline.recording.layout import PHASE_NAMES
from paceline.report.chart import PHASE_COLOURS, Chart, Layout, Trace, View, bars_height, colour, dash
from paceline.report.html import label
from paceline.report.titles import titles, without
from paceline.store.result import Result

_MOST_BARS = 40


class _Measure(msgspec.Struct, frozen=True):
    name: str
    unit: str
    of: Of
    scale: float = 1.0
    from_zero: bool = True
    """Whether its axis should begin at 0: paces and times do, so that twice as long is twice as much."""


_EXAMPLES = _Measure("examples/s", "examples/s", lambda r: r.examples_per_s if r.batch else None)
_MEASURES = (
    _Measure("to target", "seconds to target", lambda r: r.to_target_s),
    _EXAMPLES,
    _Measure("updates/s", "updates/s", lambda r: r.updates_per_s),
    _Measure("accuracy", "final accuracy %", lambda r: r.final.accuracy, 100, False),
    _Measure("loss", "final test loss", lambda r: r.final.loss, 1.0, False),
)


def overview(groups: Sequence[Group]) -> list[Chart]:
    """Those that several configurations give rise to."""
    good = [group for group in groups if group.ok]
    if len(good) < 2:
        return []
    made = [side_by_side(good), phases(good), scaling(good), batches(good)]
    return [figure for figure in made if figure]


def side_by_side(groups: Sequence[Group]) -> Chart | None:
    shown, names = groups[:_MOST_BARS], titles(groups)
    views = []
    for measure in _MEASURES:
        points = [
            (name, spread) for name, group in zip(names, shown, strict=False) if (spread := group.spread(measure.of))
        ]
        if points:
            trace = _bar(points, measure)
            views.append(View(measure.name, [trace], _lying(measure.unit)))
    left_out = f" Shown are {_MOST_BARS} of {len(groups)}." if len(groups) > _MOST_BARS else ""
    reading = "Choose the figure above the bars; whiskers reach from the lowest to the highest repeat." + left_out
    return Chart(
        key="side-by-side", title="Configurations side by side", reading=reading, views=views,
        height=bars_height(len(shown), 28),
    ) if views else None  # fmt: skip


def phases(groups: Sequence[Group]) -> Chart | None:
    shown, names = groups[:_MOST_BARS], [label(name) for name in titles(groups)]
    spent = [_phases_of(group) for group in shown]
    traces: list[Trace] = [
        {
            "type": "bar", "orientation": "h", "name": phase, "y": names[: len(shown)],
            "x": [100 * mine.get(phase, 0.0) / (sum(mine.values()) or 1.0) for mine in spent],
            "marker": {"color": PHASE_COLOURS[phase]}, "hovertemplate": "%{x:.1f} %",
        }
        for phase in PHASE_NAMES
        if any(mine.get(phase) for mine in spent)
    ]  # fmt: skip
    return Chart(
        key="phases-by-configuration",
        title="Where the workers' time went, by configuration",
        reading="The longest part of a bar is what the workers of that configuration spent most of their time on.",
        views=[View("", traces, _lying("% of the workers' time") | {"barmode": "stack"})],
        height=bars_height(len(shown), 28),
    ) if traces else None  # fmt: skip


def scaling(groups: Sequence[Group]) -> Chart | None:
    """Pace against the number of workers, a line for all that is otherwise alike."""
    lines = _lines(groups, "layout", lambda result: len(result.workers))
    if not lines:
        return None
    measure = _EXAMPLES if any(group.first.batch for group in groups) else _MEASURES[2]
    absolute, relative = [], []
    for number, (name, line) in enumerate(lines.items()):
        points = _best_of_each(line, measure.of)
        if len(points) < 2:
            continue
        absolute.append(_line(points, measure, number) | {"name": label(name)})
        relative.append(_line(_speed_up(points), measure, number) | {"name": label(name)})
    if not absolute:
        return None
    fewest, most = min(trace["x"][0] for trace in relative), max(trace["x"][-1] for trace in relative)
    ideal: Trace = {"type": "scatter", "mode": "lines", "name": "ideal", "x": [fewest, most], "y": [1, most / fewest]}
    ideal |= {"line": {"color": "#999999", "dash": "dot"}, "hoverinfo": "skip"}
    x_options = {"dtick": 1} if most <= 16 else {}
    return Chart(
        key="scaling",
        title="Scaling over the number of workers",
        reading=(
            "Speed-up is against the fewest workers of the same line; on the dotted line each worker would add as much "
            "as the first. Where several layouts have as many workers, the line goes through the fastest."
        ),
        views=[
            View(measure.name, absolute, _standing("workers", measure.unit, True, x_options)),
            View("speed-up", [*relative, ideal], _standing("workers", "speed-up", True, x_options)),
        ],
    )


def batches(groups: Sequence[Group]) -> Chart | None:
    """Figures against the batch size, a line for all that is otherwise alike."""
    lines = _lines(groups, "batch", lambda result: result.batch)
    views = []
    for measure in _MEASURES:
        traces = []
        for number, (name, line) in enumerate(lines.items()):
            points = _best_of_each(line, measure.of)
            if len(points) > 1:
                traces.append(_line(points, measure, number) | {"name": label(name)})
        if traces:
            sizes = sorted({group.first.batch for group in groups})
            x_options = {"type": "log", "tickvals": sizes}
            layout = _standing("batch: examples per worker and step", measure.unit, measure.from_zero, x_options)
            views.append(View(measure.name, traces, layout))
    return Chart(
        key="batches",
        title="Over batch sizes",
        reading="Choose the figure above; whiskers reach from the lowest to the highest repeat.",
        views=views,
    ) if views else None  # fmt: skip


def _lines(groups: Sequence[Group], axis: str, position: Callable[[Result], int]) -> dict[str, list[tuple[int, Group]]]:
    """Groups that differ only in `axis`, by what they are otherwise; none if it is the same in all."""
    if len({position(group.first) for group in groups}) < 2:
        return {}
    lines: dict[str, list[tuple[int, Group]]] = {}
    for group in groups:
        lines.setdefault(without(group, groups, axis), []).append((position(group.first), group))
    return {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items()}


def _best_of_each(line: Sequence[tuple[int, Group]], of: Of) -> list[tuple[int, Spread]]:
    best: dict[int, Spread] = {}
    for position, group in line:
        spread = group.spread(of)
        if spread and (position not in best or spread.median > best[position].median):
            best[position] = spread
    return sorted(best.items())


def _speed_up(points: Sequence[tuple[int, Spread]]) -> list[tuple[int, Spread]]:
    base = points[0][1].median or 1.0
    return [(x, Spread(s.median / base, s.lowest / base, s.highest / base)) for x, s in points]


def _line(points: Sequence[tuple[int, Spread]], measure: _Measure, number: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [position for position, _ in points],
        "y": [spread.median * measure.scale for _, spread in points],
        "error_y": _whiskers(points, measure),
        "line": {"color": colour(number), "dash": dash(number)},
        "hovertemplate": "%{y:.4s}",
    }


def _whiskers(points: Sequence[tuple[Any, Spread]], measure: _Measure) -> dict[str, Any]:
    up = [(spread.highest - spread.median) * measure.scale for _, spread in points]
    down = [(spread.median - spread.lowest) * measure.scale for _, spread in points]
    return {
        "type": "data", "symmetric": False, "array": up, "arrayminus": down,
        "visible": any(up + down), "thickness": 1.2,
    }  # fmt: skip


def _bar(points: Sequence[tuple[str, Spread]], measure: _Measure) -> Trace:
    """Bars lie down, so that long names can be read."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": [spread.median * measure.scale for _, spread in points],
        "y": [label(name) for name, _ in points],
        "error_x": _whiskers(points, measure),
        "marker": {"color": colour(0)},
        "hovertemplate": "%{y}: %{x:.4s}<extra></extra>",
    }


def _phases_of(group: Group) -> dict[str, float]:
    spent: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            for phase, seconds in worker.phases.items():
                spent[phase] = spent.get(phase, 0.0) + seconds
    return spent


def _standing(x_title: str, y_title: str, from_zero: bool, x_options: dict[str, Any]) -> Layout:
    y_axis = {"title": {"text": y_title}, "rangemode": "tozero" if from_zero else "normal"}
    return {"xaxis": {"title": {"text": x_title}, **x_options}, "yaxis": y_axis}


def _lying(x_title: str) -> Layout:
    return {
        "xaxis": {"title": {"text": x_title}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }
