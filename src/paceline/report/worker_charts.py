"""What each worker did: its phases, its steps, the staleness of its gradients."""

import polars as pl

from paceline.analyze.curves import staleness_histogram
from paceline.recording.layout import PHASE_NAMES
from paceline.report.chart import PHASE_COLOURS, Chart, Layout, Trace, View, bars_height, colour, packed
from paceline.report.html import label
from paceline.report.run_data import RunData
from paceline.store.result import Result, WorkerResult

_STALENESS_BARS = 60


def phase_bars(result: Result) -> Chart | None:
    workers = [worker for worker in result.workers if worker.phases]
    if not workers:
        return None
    names = [label(f"{worker.task} on {worker.host}") for worker in workers]
    views = [
        View("share", [_phase_trace(p, workers, names, share=True) for p in _present(workers)], _bars("% of its time")),
        View("seconds", [_phase_trace(p, workers, names, share=False) for p in _present(workers)], _bars("seconds")),
    ]
    return Chart(
        key="phases",
        title="Where each worker's time went",
        reading="The longest part of a bar is what that worker spent most of its time on; wait is for other workers.",
        views=views,
        height=bars_height(len(workers)),
    )


def steps_per_worker(result: Result) -> Chart | None:
    if len(result.workers) < 2 or not any(worker.steps for worker in result.workers):
        return None
    trace: Trace = {
        "type": "bar",
        "x": [label(f"{worker.task} on {worker.host}") for worker in result.workers],
        "y": [worker.steps for worker in result.workers],
        "text": [f"{worker.steps:,}" for worker in result.workers],
        "marker": {"color": colour(0)},
        "hovertemplate": "%{x}: %{y:,} steps<extra></extra>",
    }
    return Chart(
        key="steps",
        title="Steps per worker",
        reading="Equal bars are an even share of the work; in ps-async a short bar is a slow worker.",
        views=[View("", [trace], {"yaxis": {"title": {"text": "steps"}}, "xaxis": {"type": "category"}})],
        height=300,
    )


def staleness(run: RunData) -> Chart | None:
    known = staleness_histogram(run.steps)
    if not len(known) or not known["staleness"].max():
        return None
    width = -(-(int(known["staleness"].max()) + 1) // _STALENESS_BARS)  # type: ignore[arg-type]
    by_class = known.group_by("task", (pl.col("staleness") // width * width).alias("from"))
    counts = by_class.agg(pl.col("steps").sum()).sort("task", "from")
    traces = []
    for number, ((task,), mine) in enumerate(counts.group_by("task", maintain_order=True)):
        shares = mine["steps"] / mine["steps"].sum() * 100
        traces.append(
            {
                "type": "bar",
                "name": label(str(task)),
                "x": packed(mine["from"].to_numpy() + (width - 1) / 2),
                "y": packed(shares.to_numpy(), "f4"),
                "marker": {"color": colour(number)},
                "hovertemplate": "staleness %{x}: %{y:.2f} % of its steps",
            }
        )
    layout: Layout = {"barmode": "group", "xaxis": {"title": {"text": "updates by others since its pull"}}}
    layout["yaxis"] = {"title": {"text": "% of the worker's steps"}}
    return Chart(
        key="staleness",
        title="Staleness",
        reading="The further right, the older the values were that a gradient was computed from.",
        views=[View("", traces, layout)],
        height=320,
    )


def _present(workers: list[WorkerResult]) -> list[str]:
    return [phase for phase in PHASE_NAMES if any(worker.phases.get(phase) for worker in workers)]


def _phase_trace(phase: str, workers: list[WorkerResult], names: list[str], *, share: bool) -> Trace:
    seconds = [worker.phases.get(phase, 0.0) for worker in workers]
    totals = [sum(worker.phases.values()) or 1.0 for worker in workers]
    return {
        "type": "bar",
        "orientation": "h",
        "name": phase,
        "y": names,
        "x": [100 * mine / total for mine, total in zip(seconds, totals, strict=True)] if share else seconds,
        "customdata": seconds,
        "marker": {"color": PHASE_COLOURS[phase]},
        "hovertemplate": "%{customdata:.4s} s" + (", %{x:.1f} %" if share else ""),
    }


def _bars(title: str) -> Layout:
    axis = {"type": "category", "autorange": "reversed", "automargin": True}
    return {"barmode": "stack", "xaxis": {"title": {"text": title}}, "yaxis": axis}
