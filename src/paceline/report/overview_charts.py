"""Charts of all configurations: metrics with their bottlenecks, phases, trade-offs, workers and batch sizes."""

from collections.abc import Callable, Sequence

from paceline.analyze.metrics import ACCURACY, EXAMPLES, LOSS, MEMORY, TO_TARGET, TRAIN, UPDATES, Metric
from paceline.analyze.repeats import Group, Spread, group_names, name_without
from paceline.page.blocks import (
    Axis,
    Bar,
    Bars,
    BarView,
    Block,
    Points,
    PointSeries,
    PointView,
    ShareRow,
    Shares,
    ShareView,
)
from paceline.present.bottleneck import short_bottleneck
from paceline.present.labels import PHASES_CAPTION
from paceline.recording.layout import SHOWN_NAMES
from paceline.report.best_configuration import BestConfigurationRow
from paceline.store.result import Result

_METRICS = (TO_TARGET, TRAIN, EXAMPLES, UPDATES, ACCURACY, LOSS, MEMORY)
"""In the order of their views."""
_MOST_BARS = 40
"""Most configurations in a bar chart."""
_RANGE_CAPTION = "range over the repeats"


def metrics_by_configuration(groups: Sequence[Group], best: Sequence[BestConfigurationRow]) -> Bars | None:
    """Each metric by configuration, sorted, with the winner marked; it opens with the first metric that has a goal."""
    named = [(name, group) for name, group in zip(group_names(groups), groups, strict=True) if group.ok]
    winners = {row.metric: row for row in best} if len(named) > 1 else {}
    metrics = sorted(_METRICS, key=lambda metric: metric.key not in winners)
    views = [view for metric in metrics if (view := _bar_view(metric, named, winners.get(metric.key)))]
    limit = f" The chart shows {_MOST_BARS} of {len(named)} configurations." if len(named) > _MOST_BARS else ""
    return Bars(
        key="metrics",
        title="Configurations, best first" if len(named) > 1 else "Measured",
        caption=f"Bars: median; the line across a bar is the {_RANGE_CAPTION}.{limit}",
        views=views,
        note_title="bottleneck",
    ) if views else None  # fmt: skip


def _bar_view(metric: Metric, named: Sequence[tuple[str, Group]], row: BestConfigurationRow | None) -> BarView | None:
    rows = []
    for name, group in named:
        spread = group.spread(metric.read) if metric.values(group) else None
        if spread:
            value, low, high = map(metric.scaled, (spread.median, spread.lowest, spread.highest))
            note = short_bottleneck([result.verdict for result in group.ok])
            rows.append(
                Bar(
                    label=name,
                    value=value,
                    low=low,
                    high=high,
                    text=metric.text(group),
                    best=row is not None and name == row.winner,
                    badge="best" if row is not None and row.significant else "best median",
                    note=note,
                )
            )
    rows.sort(key=lambda row: row.value, reverse=metric.better == "more")
    return BarView(name=metric.title, rows=rows[:_MOST_BARS], better=metric.better) if rows else None


def phases(groups: Sequence[Group]) -> Shares | None:
    named = [(name, group) for name, group in zip(group_names(groups), groups, strict=True) if group.ok][:_MOST_BARS]
    rows = [ShareRow(label=name, parts=parts) for name, group in named if (parts := _phase_seconds(group))]
    return Shares(
        key="phases-by-configuration",
        title="Worker time by phase and configuration",
        caption=PHASES_CAPTION,
        views=[ShareView(name="share", unit="%", rows=rows)],
    ) if rows else None  # fmt: skip


def trade_offs(groups: Sequence[Group], best: Sequence[BestConfigurationRow]) -> list[Block]:
    """Time against memory and accuracy against time: a configuration further to the left and up is better in both."""
    named = [(name, group) for name, group in zip(group_names(groups), groups, strict=True) if group.ok]
    time = TO_TARGET if sum(bool(TO_TARGET.values(group)) for _, group in named) > 1 else TRAIN
    winner = next((row.winner for row in best if row.metric == time.key), None)
    pairs = (
        ("time-memory", "Time against memory", MEMORY, "Left is faster, down needs less memory."),
        ("accuracy-time", "Accuracy against time", ACCURACY, "Left is faster, up is more accurate."),
    )  # fmt: skip
    charts: list[Block] = []
    for key, title, metric, caption in pairs:
        series = [
            PointSeries(
                name=name,
                points=[(time.scaled(x.median), *_scaled(metric, y))],
                joined=False,
                best=name == winner,
            )
            for name, group in named
            if time.values(group)
            and (x := group.spread(time.read))
            and metric.values(group)
            and (y := group.spread(metric.read))
        ]
        if len(series) > 1:
            view = PointView(name="", x=Axis(title=time.title, zero=True), y=Axis(title=metric.title), series=series)
            charts.append(Points(key=key, title=title, caption=f"{caption} Lines: {_RANGE_CAPTION}.", views=[view]))
    return charts


def scaling(groups: Sequence[Group]) -> Points | None:
    """Throughput over the number of workers, with a line for each set of otherwise equal configurations."""
    usable = [group for group in groups if group.ok]
    lines = _lines(usable, "layout", lambda result: len(result.workers))
    metric = EXAMPLES if any(group.first.batch for group in usable) else UPDATES
    absolute, relative = [], []
    for name, line in lines.items():
        points = _best_of_each(line, metric)
        if len(points) > 1:
            absolute.append(PointSeries(name=name, points=[(x, *_scaled(metric, spread)) for x, spread in points]))
            relative.append(PointSeries(name=name, points=_speedup(points)))
    if not absolute:
        return None
    counts = sorted({point[0] for series in absolute for point in series.points})
    x = Axis(title="workers", ticks=counts if len(counts) <= 16 else [])
    ideal = PointSeries(
        name="ideal",
        points=[(counts[0], 1, None, None), (counts[-1], counts[-1] / counts[0], None, None)],
        ideal=True,
    )
    return Points(
        key="scaling",
        title="Scaling with the number of workers",
        caption=(
            "Speed-up: throughput relative to the fewest workers of the same line; the dotted line is ideal scaling. "
            "If several layouts have the same number of workers, the line shows the fastest."
        ),
        views=[
            PointView(name=metric.title, x=x, y=Axis(title=metric.title, zero=True), series=absolute),
            PointView(name="speed-up", x=x, y=Axis(title="speed-up (×)", zero=True), series=[*relative, ideal]),
        ],
    )


def batches(groups: Sequence[Group]) -> Points | None:
    """Metrics over the batch size, with a line for each set of otherwise equal configurations."""
    usable = [group for group in groups if group.ok]
    lines = _lines(usable, "batch", lambda result: result.batch)
    views = []
    for metric in (TO_TARGET, EXAMPLES, UPDATES, ACCURACY, LOSS):
        series = [
            PointSeries(name=name, points=[(x, *_scaled(metric, spread)) for x, spread in points])
            for name, line in lines.items()
            if len(points := _best_of_each(line, metric)) > 1
        ]
        if series:
            sizes = sorted({group.first.batch for group in usable})
            x = Axis(title="batch (examples per worker and step)", log=min(sizes) > 0, ticks=sizes)
            y = Axis(title=metric.title, zero=_starts_at_zero(metric))
            views.append(PointView(name=metric.title, x=x, y=y, series=series))
    caption = f"Points: median; lines: {_RANGE_CAPTION}."
    return Points(key="batches", title="Metrics by batch size", caption=caption, views=views) if views else None


def _lines(
    groups: Sequence[Group], setting: str, position: Callable[[Result], int]
) -> dict[str, list[tuple[int, Group]]]:
    """Groups that differ only in `setting`, by the name of the rest; empty if all have the same position."""
    if len({position(group.first) for group in groups}) < 2:
        return {}
    lines: dict[str, list[tuple[int, Group]]] = {}
    for group in groups:
        name = name_without(group, groups, setting) or "all configurations"
        lines.setdefault(name, []).append((position(group.first), group))
    return {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items()}


def _best_of_each(line: Sequence[tuple[int, Group]], metric: Metric) -> list[tuple[int, Spread]]:
    """The best group at each position."""
    sign = 1 if metric.better == "more" else -1
    best: dict[int, Spread] = {}
    for position, group in line:
        spread = group.spread(metric.read) if metric.values(group) else None
        if spread and (position not in best or sign * spread.median > sign * best[position].median):
            best[position] = spread
    return sorted(best.items())


def _scaled(metric: Metric, spread: Spread) -> tuple[float, float, float]:
    return metric.scaled(spread.median), metric.scaled(spread.lowest), metric.scaled(spread.highest)


def _speedup(points: Sequence[tuple[int, Spread]]) -> list[tuple[float, float, float | None, float | None]]:
    base = points[0][1].median or 1.0
    return [(x, spread.median / base, spread.lowest / base, spread.highest / base) for x, spread in points]


def _phase_seconds(group: Group) -> dict[str, float]:
    """Seconds of all workers in each phase, over all repeats."""
    spent: dict[str, float] = {}
    for name in SHOWN_NAMES:
        seconds = sum(worker.phases.get(name, 0.0) for result in group.ok for worker in result.workers)
        if seconds:
            spent[name] = round(seconds, 6)
    return spent


def _starts_at_zero(metric: Metric) -> bool:
    """Axes of times and rates start at 0, so that a doubled value looks doubled; those of loss and accuracy do not."""
    return metric.kind != "amount"
