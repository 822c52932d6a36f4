"""The phases of every task on one clock: in shares over the whole run, and step by step in chosen stretches."""

import polars as pl

from paceline.analyze.timeline import Window, phase_shares, windows
from paceline.recording.layout import TIMED_NAMES
from paceline.report.chart import PHASE_COLOURS, Chart, Layout, Trace, View, axes, axis, packed
from paceline.report.fault_marks import about_faults, mark_faults
from paceline.report.html import label
from paceline.report.run_data import RunData

_BARS_PER_VIEW = 1_200
_MOST_BARS = 2_500
_SHARE_BINS = 100
_MOST_TASKS = 8
_MOST_FAULTS = 4
_KINDS = TIMED_NAMES


def timeline(run: RunData) -> Chart | None:
    """Step by step; of a long run in stretches, since all of it would be too much for a page."""
    spans = run.spans
    if not len(spans):
        return None
    tasks = sorted(spans["task"].unique().to_list(), key=_task_order)
    views = [_view(run, spans, window, tasks) for window in _chosen(run, spans)]
    return Chart(
        key="timeline",
        title="Step timeline",
        reading=(
            "Each bar is a phase of a step, all tasks on one clock: drag to zoom to single steps, double-click to go "
            f"back. Gaps are time that no phase was recorded for.{_about_fused(spans)}{about_faults(run.result)}"
        ),
        views=[view for view in views if view.traces],
        height=130 + 44 * max(2, len(tasks)),
    )


def shares_over_time(run: RunData) -> Chart | None:
    """How the time of each task was divided in each stretch of the whole run."""
    spans = run.spans
    steps = spans.group_by("task").agg(pl.col("step").n_unique()).get_column("step")
    if not len(spans) or int(steps.max() or 0) < 10:  # type: ignore[arg-type]
        return None
    bins = min(_SHARE_BINS, int(steps.min() or 1) // 5 or 1)  # type: ignore[arg-type]
    if bins < 3:
        return None
    shares = phase_shares(spans, bins=bins)
    tasks = sorted(shares["task"].unique().to_list(), key=_task_order)
    traces: list[Trace] = []
    for row, task in enumerate(tasks[:_MOST_TASKS]):
        explained = {trace["name"] for trace in traces}
        traces += _areas(run, shares.filter(pl.col("task") == task), row, explained)
    layout = axes([f"{label(task)} %" for task in tasks[:_MOST_TASKS]], "seconds of training")
    for row in range(len(tasks[:_MOST_TASKS])):
        layout[f"yaxis{axis(row)}"] |= {"range": [0, 100], "tickvals": [0, 50, 100]}
    mark_faults(layout, run.result)
    left_out = f" Shown are {_MOST_TASKS} of {len(tasks)} tasks." if len(tasks) > _MOST_TASKS else ""
    return Chart(
        key="shares",
        title="Phases over the whole run",
        reading=(
            f"The wider a band, the more of the time in that stretch (of {bins}) went into the phase."
            f"{_about_fused(spans)}{left_out}{about_faults(run.result)}"
        ),
        views=[View("", traces, layout)],
        height=130 + 110 * len(tasks[:_MOST_TASKS]),
    )


def _chosen(run: RunData, spans: pl.DataFrame) -> list[Window]:
    if len(spans) <= _BARS_PER_VIEW:
        end = float((spans["t_s"] + spans["duration_s"]).max())  # type: ignore[arg-type]
        return [Window("whole run", float(spans["t_s"].min()), end)]  # type: ignore[arg-type]
    made = max(1, len(run.steps.filter(pl.col("kind") == "step")))
    bars_per_step = len(spans) / made * spans["task"].n_unique()
    steps_each = max(3, min(30, int(_BARS_PER_VIEW / bars_per_step)))
    return [*windows(run.steps, steps_each=steps_each), *_around_faults(run, steps_each)]


def _around_faults(run: RunData, steps_each: int) -> list[Window]:
    """Some steps before each of the first faults, and as much time after it."""
    pace = max(run.result.updates_per_s, 1e-9)
    half_s = steps_each / pace / 2
    came = [(fault.what, run.start_s + fault.at_s) for fault in run.result.faults if fault.at_s is not None]
    return [Window(what, at_s - half_s, at_s + half_s) for what, at_s in came[:_MOST_FAULTS]]


def _view(run: RunData, spans: pl.DataFrame, window: Window, tasks: list[str]) -> View:
    inside = (pl.col("t_s") < window.end_s) & (pl.col("t_s") + pl.col("duration_s") > window.start_s)
    rows = spans.filter(inside).sort("t_s").head(_MOST_BARS)
    traces = [_bars(run, mine, kind) for kind in _KINDS if len(mine := rows.filter(pl.col("kind") == kind))]
    layout: Layout = {
        "barmode": "overlay",
        "bargap": 0.25,
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "seconds of training"},
            "range": [window.start_s - run.start_s, window.end_s - run.start_s],
        },
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [label(task) for task in tasks],
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
        "y": [label(task) for task in rows["task"].to_list()],
        "base": packed(rows["t_s"].to_numpy() - run.start_s),
        "x": packed(rows["duration_s"].to_numpy()),
        "customdata": rows["step"].to_list(),
        "marker": {"color": PHASE_COLOURS[kind], "line": {"width": 0}},
        "hovertemplate": f"%{{y}}, step %{{customdata:,}}: {kind} %{{x:.4s}}s<extra></extra>",
    }


def _areas(run: RunData, shares: pl.DataFrame, row: int, explained: set[str]) -> list[Trace]:
    times = shares.select(pl.col("t_s").unique()).sort("t_s")
    found: list[Trace] = []
    for kind in _KINDS:
        mine = times.join(shares.filter(pl.col("kind") == kind), on="t_s", how="left").sort("t_s")
        if mine["share"].is_not_null().any():
            found.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": kind,
                    "legendgroup": kind,
                    "showlegend": kind not in explained,
                    "stackgroup": f"task{row}",
                    "x": packed(times["t_s"].to_numpy() - run.start_s),
                    "y": packed(mine["share"].fill_null(0).to_numpy() * 100, "f4"),
                    "yaxis": f"y{axis(row)}",
                    "line": {"width": 0.5, "color": PHASE_COLOURS[kind]},
                    "fillcolor": PHASE_COLOURS[kind],
                    "hovertemplate": "%{y:.0f} %",
                }
            )
    return found


def _about_fused(spans: pl.DataFrame) -> str:
    has_some = bool((spans["kind"] == "fused").any())
    return " Fused is one call of the framework that pulls, computes and pushes." if has_some else ""


def _task_order(task: str) -> tuple[str, int]:
    """w10 comes after w9."""
    digits = "".join(mark for mark in task if mark.isdigit())
    return task.rstrip("0123456789"), int(digits or 0)
