"""Charts of the phases of every task over time: as shares over the whole run, and step by step in selected windows."""

import polars as pl

from paceline.analyze.timeline import Window, phase_shares, windows
from paceline.present.colours import PHASE_COLOURS
from paceline.recording.layout import TIMED_NAMES
from paceline.report.chart import Chart, Layout, Trace, View, axis_suffix, encoded, stacked_axes
from paceline.report.fault_marks import faults_caption, mark_faults
from paceline.report.html import chart_text
from paceline.report.run_data import RunData

_BARS_PER_VIEW = 1_200
"""Bars for which the length of a window is chosen."""
_MOST_BARS = 2_500
"""Bars beyond which a window is cut off, so that the page stays fast."""
_SHARE_BINS = 100
_MOST_TASKS = 8
"""Most tasks in the chart over the whole run."""
_MOST_FAULTS = 4
"""Most faults that have a window."""
_KINDS = TIMED_NAMES


def timeline(run: RunData) -> Chart | None:
    """Step by step; for a long run only in some windows, since all steps would make the page too large."""
    spans = run.spans
    if not len(spans):
        return None
    tasks = _in_order(run, spans["task"])
    views = [_view(run, spans, window, tasks) for window in _windows(run, spans)]
    return Chart(
        key="timeline",
        title="Step timeline",
        caption=(
            "Each bar is a phase of a step; all tasks have the same time axis. Drag to zoom in to single steps, "
            "double-click to zoom out. No phase was recorded in the gaps."
            f"{_fused_caption(spans)}{faults_caption(run.result)}"
        ),
        views=[view for view in views if view.traces],
        height=130 + 44 * max(2, len(tasks)),
    )


def shares_over_time(run: RunData) -> Chart | None:
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
    traces: list[Trace] = []
    for row, task in enumerate(tasks[:_MOST_TASKS]):
        in_legend = {trace["name"] for trace in traces}
        traces += _areas(run, shares.filter(pl.col("task") == task), row, in_legend)
    layout = stacked_axes([f"{chart_text(task)} (%)" for task in tasks[:_MOST_TASKS]], "training time (s)")
    for row in range(len(tasks[:_MOST_TASKS])):
        layout[f"yaxis{axis_suffix(row)}"] |= {"range": [0, 100], "tickvals": [0, 50, 100]}
    mark_faults(layout, run.result)
    limit = f" The chart shows {_MOST_TASKS} of {len(tasks)} tasks." if len(tasks) > _MOST_TASKS else ""
    return Chart(
        key="shares",
        title="Phases over time",
        caption=(
            f"Share of each phase in the time of a task, in {bins} equal time intervals."
            f"{_fused_caption(spans)}{limit}{faults_caption(run.result)}"
        ),
        views=[View("", traces, layout)],
        height=130 + 110 * len(tasks[:_MOST_TASKS]),
    )


def _windows(run: RunData, spans: pl.DataFrame) -> list[Window]:
    if len(spans) <= _BARS_PER_VIEW:
        end = float((spans["t_s"] + spans["duration_s"]).max())  # type: ignore[arg-type]
        return [Window("whole run", float(spans["t_s"].min()), end)]  # type: ignore[arg-type]
    steps = max(1, len(run.steps.filter(pl.col("kind") == "step")))
    bars_per_step = len(spans) / steps * spans["task"].n_unique()
    steps_each = max(3, min(30, int(_BARS_PER_VIEW / bars_per_step)))
    return [*windows(run.steps, steps_each=steps_each), *_around_faults(run, steps_each)]


def _around_faults(run: RunData, steps_each: int) -> list[Window]:
    """A window around each of the first faults."""
    half_s = steps_each / max(run.result.updates_per_s, 1e-9) / 2
    faults = [(fault.what, run.start_s + fault.at_s) for fault in run.result.faults if fault.at_s is not None]
    return [Window(what, at_s - half_s, at_s + half_s) for what, at_s in faults[:_MOST_FAULTS]]


def _view(run: RunData, spans: pl.DataFrame, window: Window, tasks: list[str]) -> View:
    inside = (pl.col("t_s") < window.end_s) & (pl.col("t_s") + pl.col("duration_s") > window.start_s)
    rows = spans.filter(inside).sort("t_s").head(_MOST_BARS)
    traces = [_bars(run, spans_, kind) for kind in _KINDS if len(spans_ := rows.filter(pl.col("kind") == kind))]
    layout: Layout = {
        "barmode": "overlay",
        "bargap": 0.25,
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "training time (s)"},
            "range": [window.start_s - run.start_s, window.end_s - run.start_s],
        },
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [chart_text(task) for task in tasks],
            "autorange": "reversed",
            "fixedrange": True,
        },
    }
    mark_faults(layout, run.result)
    return View(window.name, traces, layout)


def _bars(run: RunData, rows: pl.DataFrame, kind: str) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "y": [chart_text(task) for task in rows["task"].to_list()],
        "base": encoded(rows["t_s"].to_numpy() - run.start_s),
        "x": encoded(rows["duration_s"].to_numpy()),
        "customdata": rows["step"].to_list(),
        "marker": {"color": PHASE_COLOURS[kind], "line": {"width": 0}},
        "hovertemplate": f"%{{y}}, step %{{customdata:,}}: {kind} %{{x:.4s}}s<extra></extra>",
    }


def _areas(run: RunData, shares: pl.DataFrame, row: int, in_legend: set[str]) -> list[Trace]:
    times = shares.select(pl.col("t_s").unique()).sort("t_s")
    traces: list[Trace] = []
    for kind in _KINDS:
        phase = times.join(shares.filter(pl.col("kind") == kind), on="t_s", how="left").sort("t_s")
        if phase["share"].is_not_null().any():
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": kind,
                    "legendgroup": kind,
                    "showlegend": kind not in in_legend,
                    "stackgroup": f"task{row}",
                    "x": encoded(times["t_s"].to_numpy() - run.start_s),
                    "y": encoded(phase["share"].fill_null(0).to_numpy() * 100, "f4"),
                    "yaxis": f"y{axis_suffix(row)}",
                    "line": {"width": 0.5, "color": PHASE_COLOURS[kind]},
                    "fillcolor": PHASE_COLOURS[kind],
                    "hovertemplate": "%{y:.0f} %",
                }
            )
    return traces


def _fused_caption(spans: pl.DataFrame) -> str:
    has_fused = bool((spans["kind"] == "fused").any())
    return " fused = one framework call that pulls, computes and pushes." if has_fused else ""


def _in_order(run: RunData, tasks: pl.Series) -> list[str]:
    """Each task once: parameter servers, then workers by their index."""
    workers = [worker.task for worker in run.result.workers]
    return sorted(tasks.unique(), key=lambda task: (workers.index(task) if task in workers else -1, task))
