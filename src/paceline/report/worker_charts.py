"""Charts of the workers of a run: phases, steps, staleness of the gradients."""

import polars as pl

from paceline.present.colours import PHASE_COLOURS
from paceline.present.labels import PHASES_CAPTION
from paceline.recording.layout import SHOWN_NAMES
from paceline.report.chart import Chart, Layout, Trace, View, bars_height, encoded, line_colour
from paceline.report.html import chart_text
from paceline.report.run_data import RunData
from paceline.store.result import Result, WorkerResult

_STALENESS_BARS = 60
"""Most bars per worker; larger staleness values are combined."""


def phase_bars(result: Result) -> Chart | None:
    workers = [worker for worker in result.workers if worker.phases]
    if not workers:
        return None
    names = [chart_text(f"{worker.task} on {worker.host}") for worker in workers]
    views = [
        View(
            "share",
            [_phase_trace(p, workers, names, share=True) for p in _phases_of(workers)],
            _bars("share of the worker's time (%)"),
        ),
        View("seconds", [_phase_trace(p, workers, names, share=False) for p in _phases_of(workers)], _bars("time (s)")),
    ]
    return Chart(
        key="phases",
        title="Time by phase of each worker",
        caption=PHASES_CAPTION,
        views=views,
        height=bars_height(len(workers)),
    )


def steps_per_worker(result: Result) -> Chart | None:
    if len(result.workers) < 2 or not any(worker.steps for worker in result.workers):
        return None
    trace: Trace = {
        "type": "bar",
        "x": [chart_text(f"{worker.task} on {worker.host}") for worker in result.workers],
        "y": [worker.steps for worker in result.workers],
        "text": [f"{worker.steps:,}" for worker in result.workers],
        "marker": {"color": line_colour(0)},
        "hovertemplate": "%{x}: %{y:,} steps<extra></extra>",
    }
    return Chart(
        key="steps",
        title="Steps per worker",
        caption="Workers with an even share of the work have equal bars; with asynchronous updates a slow worker has a "
        "shorter bar.",
        views=[View("", [trace], {"yaxis": {"title": {"text": "steps"}}, "xaxis": {"type": "category"}})],
        height=300,
    )


def staleness(run: RunData) -> Chart | None:
    histogram = run.staleness
    if not len(histogram) or not histogram["staleness"].max():
        return None
    width = -(-(int(histogram["staleness"].max()) + 1) // _STALENESS_BARS)  # type: ignore[arg-type]
    by_bin = histogram.group_by("task", (pl.col("staleness") // width * width).alias("from"))
    counts = by_bin.agg(pl.col("steps").sum()).sort("task", "from")
    traces = []
    for number, ((task,), table) in enumerate(counts.group_by("task", maintain_order=True)):
        shares = table["steps"] / table["steps"].sum() * 100
        traces.append(
            {
                "type": "bar",
                "name": chart_text(str(task)),
                "x": encoded(table["from"].to_numpy() + (width - 1) / 2),
                "y": encoded(shares.to_numpy(), "f4"),
                "marker": {"color": line_colour(number)},
                "hovertemplate": "staleness %{x}: %{y:.2f} % of its steps",
            }
        )
    layout: Layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": "staleness (updates by other workers since the pull)"}},
    }
    layout["yaxis"] = {"title": {"text": "share of the worker's steps (%)"}}
    return Chart(
        key="staleness",
        title="Staleness of the gradients",
        caption="Staleness: updates by other workers between the pull of the parameters and the push of the gradient.",
        views=[View("", traces, layout)],
        height=320,
    )


def _phases_of(workers: list[WorkerResult]) -> list[str]:
    return [phase for phase in SHOWN_NAMES if any(worker.phases.get(phase) for worker in workers)]


def _phase_trace(phase: str, workers: list[WorkerResult], names: list[str], *, share: bool) -> Trace:
    seconds = [worker.phases.get(phase, 0.0) for worker in workers]
    totals = [sum(worker.phases.values()) or 1.0 for worker in workers]
    return {
        "type": "bar",
        "orientation": "h",
        "name": phase,
        "y": names,
        "x": [100 * spent / total for spent, total in zip(seconds, totals, strict=True)] if share else seconds,
        "customdata": seconds,
        "marker": {"color": PHASE_COLOURS[phase]},
        "hovertemplate": "%{customdata:.4s} s" + (", %{x:.1f} %" if share else ""),
    }


def _bars(title: str) -> Layout:
    axis = {"type": "category", "autorange": "reversed", "automargin": True}
    return {"barmode": "stack", "xaxis": {"title": {"text": title}}, "yaxis": axis}
