"""Charts of the phases of every task over time: as shares over the whole run, and step by step in selected windows."""

import polars as pl

from paceline.analyze.timeline import Window, phase_shares, windows
from paceline.page.blocks import Line, Lines, LineView, Panel, Timeline, TimelineView, compact
from paceline.recording.layout import TIMED_NAMES
from paceline.report.curve_charts import OVER_TIME
from paceline.report.fault_marks import marks_of
from paceline.report.run_data import RunData

_SPANS_PER_VIEW = 600
"""Spans for which the length of a window is chosen."""
_MOST_SPANS = 1_500
"""Spans beyond which a window is cut off, so that the page stays small."""
_SHARE_BINS = 80
_MOST_TASKS = 8
"""Most tasks in the chart over the whole run."""
_MOST_FAULTS = 4
"""Most faults that have a window."""


def timeline(run: RunData) -> Timeline | None:
    """Step by step; for a long run only in some windows, since all steps would make the page too large."""
    spans = run.spans
    if not len(spans):
        return None
    tasks = _in_order(run, spans["task"])
    hosts = {task: host.host for host in run.result.hosts for task in host.tasks}
    views = [view for window in _windows(run, spans) if (view := _view(run, spans, window, tasks)).spans]
    return Timeline(
        key="timeline",
        title="Timeline of single steps",
        caption=(
            "Each bar is a phase of a step; all tasks have the same time axis. Drag to zoom in to single steps, "
            f"double-click to zoom out. No phase was recorded in the gaps.{_fused_caption(spans)}"
        ),
        rows=[f"{task} on {hosts[task]}" if task in hosts else task for task in tasks],
        phases=TIMED_NAMES,
        views=views,
        marks=marks_of(run.result, run.start_s),
    ) if views else None  # fmt: skip


def shares_over_time(run: RunData) -> Lines | None:
    """Share of each phase in the time of each task, in equal time intervals of the whole run."""
    spans = run.spans
    steps = spans.group_by("task").agg(pl.col("step").n_unique()).get_column("step")
    if not len(spans) or int(steps.max() or 0) < 10:  # type: ignore[arg-type]
        return None
    bins = min(_SHARE_BINS, int(steps.min() or 1) // 5 or 1)  # type: ignore[arg-type]
    if bins < 3:
        return None
    shares = phase_shares(spans, bins=bins)
    tasks = _in_order(run, shares["task"])
    views = [
        LineView(
            name=task,
            x_title=OVER_TIME,
            panels=[Panel(title="share (%)", lines=_share_lines(run, shares, task), zero=True)],
        )
        for task in tasks[:_MOST_TASKS]
    ]
    limit = f" {_MOST_TASKS} of {len(tasks)} tasks can be selected." if len(tasks) > _MOST_TASKS else ""
    return Lines(
        key="shares",
        title="Phases over time",
        caption=f"Share of each phase in the time of a task, in {bins} equal time intervals."
        f"{_fused_caption(spans)}{limit}",
        views=views,
        marks=marks_of(run.result, run.start_s),
    )


def _share_lines(run: RunData, shares: pl.DataFrame, task: str) -> list[Line]:
    own = shares.filter(pl.col("task") == task)
    times = own.select(pl.col("t_s").unique()).sort("t_s")
    xs = [x or 0.0 for x in compact(times["t_s"].to_numpy() - run.start_s)]
    lines = []
    for kind in TIMED_NAMES:
        phase = times.join(own.filter(pl.col("kind") == kind), on="t_s", how="left").sort("t_s")
        if phase["share"].is_not_null().any():
            values = compact(phase["share"].fill_null(0).to_numpy() * 100, 3)
            lines.append(Line(name=kind, x=xs, y=values, phase=kind))
    return lines


def _windows(run: RunData, spans: pl.DataFrame) -> list[Window]:
    if len(spans) <= _SPANS_PER_VIEW:
        end = float((spans["t_s"] + spans["duration_s"]).max())  # type: ignore[arg-type]
        return [Window("whole run", float(spans["t_s"].min()), end)]  # type: ignore[arg-type]
    steps = max(1, len(run.steps.filter(pl.col("kind") == "step")))
    spans_per_step = len(spans) / steps * spans["task"].n_unique()
    steps_each = max(3, min(30, int(_SPANS_PER_VIEW / spans_per_step)))
    return [*windows(run.steps, steps_each=steps_each), *_around_faults(run, steps_each)]


def _around_faults(run: RunData, steps_each: int) -> list[Window]:
    """A window around each of the first faults."""
    half_s = steps_each / max(run.result.updates_per_s, 1e-9) / 2
    faults = [(fault.what, run.start_s + fault.at_s) for fault in run.result.faults if fault.at_s is not None]
    return [Window(what, at_s - half_s, at_s + half_s) for what, at_s in faults[:_MOST_FAULTS]]


def _view(run: RunData, spans: pl.DataFrame, window: Window, tasks: list[str]) -> TimelineView:
    inside = (pl.col("t_s") < window.end_s) & (pl.col("t_s") + pl.col("duration_s") > window.start_s)
    rows = spans.filter(inside).sort("t_s").head(_MOST_SPANS)
    numbers: list[int] = []
    for task, kind, step, t_s, duration_s in rows.select("task", "kind", "step", "t_s", "duration_s").iter_rows():
        start_us, length_us = round((t_s - window.start_s) * 1e6), max(1, round(duration_s * 1e6))
        numbers += (tasks.index(task), TIMED_NAMES.index(kind), start_us, length_us, int(step))
    start = round(window.start_s - run.start_s, 6)
    return TimelineView(
        name=window.name, start=start, end=round(max(window.end_s - run.start_s, start + 1e-6), 6), spans=numbers
    )


def _fused_caption(spans: pl.DataFrame) -> str:
    has_fused = bool((spans["kind"] == "fused").any())
    return " fused = one framework call that pulls, computes and pushes." if has_fused else ""


def _in_order(run: RunData, tasks: pl.Series) -> list[str]:
    """Each task once: parameter servers, then workers by their index."""
    workers = [worker.task for worker in run.result.workers]
    return sorted(tasks.unique(), key=lambda task: (workers.index(task) if task in workers else -1, task))
