"""Charts of the workers of a run: phases, steps, staleness of the gradients."""

import polars as pl

from paceline.page.blocks import (
    Axis,
    Bar,
    Bars,
    BarView,
    Points,
    PointSeries,
    PointView,
    ShareRow,
    Shares,
    ShareView,
    compact,
)
from paceline.present.labels import PHASES_CAPTION
from paceline.recording.layout import SHOWN_NAMES
from paceline.report.run_data import RunData
from paceline.store.result import Result

_STALENESS_CLASSES = 40
"""Most points per worker; larger staleness values are combined."""


def phase_bars(result: Result) -> Shares | None:
    rows = [
        ShareRow(
            label=f"{worker.task} on {worker.host}",
            parts={name: round(worker.phases[name], 6) for name in SHOWN_NAMES if worker.phases.get(name)},
        )
        for worker in result.workers
        if any(worker.phases.values())
    ]
    return Shares(
        key="phases",
        title="Time by phase of each worker",
        caption=PHASES_CAPTION,
        views=[ShareView(name="share", unit="%", rows=rows), ShareView(name="seconds", unit="s", rows=rows)],
    ) if rows else None  # fmt: skip


def steps_per_worker(result: Result) -> Bars | None:
    if len(result.workers) < 2 or not any(worker.steps for worker in result.workers):
        return None
    rows = [Bar(label=f"{w.task} on {w.host}", value=w.steps, text=f"{w.steps:,}") for w in result.workers]
    return Bars(
        key="steps",
        title="Steps per worker",
        caption="Workers with an even share of the work have equal bars; with asynchronous updates a slow worker has a "
        "shorter bar.",
        views=[BarView(name="steps", rows=rows)],
    )


def staleness(run: RunData) -> Points | None:
    histogram = run.staleness
    if not len(histogram) or not histogram["staleness"].max():
        return None
    width = -(-(int(histogram["staleness"].max()) + 1) // _STALENESS_CLASSES)  # type: ignore[arg-type]
    by_class = histogram.group_by("task", (pl.col("staleness") // width * width).alias("from"))
    counts = by_class.agg(pl.col("steps").sum()).sort("task", "from")
    series = []
    for (task,), table in counts.group_by("task", maintain_order=True):
        shares = compact(table["steps"] / table["steps"].sum() * 100)
        middles = (table["from"] + (width - 1) / 2).to_list()
        series.append(
            PointSeries(
                name=str(task), points=[(x, y or 0.0, None, None) for x, y in zip(middles, shares, strict=True)]
            )
        )
    x = Axis(title="staleness (updates by other workers since the pull)", zero=True)
    y = Axis(title="share of the worker's steps (%)", zero=True)
    return Points(
        key="staleness",
        title="Staleness of the gradients",
        caption="Staleness: updates by other workers between the pull of the parameters and the push of the gradient.",
        views=[PointView(name="", x=x, y=y, series=series)],
    )
