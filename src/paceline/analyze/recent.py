"""The bottleneck of the last seconds of a run in progress, judged as a period of a finished run is."""

from collections.abc import Sequence

import polars as pl

from paceline.analyze.bottleneck.over_time import judge_window
from paceline.analyze.run_window import RunWindow
from paceline.store.events import Event
from paceline.store.header import RunHeader
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun, as_store_errors
from paceline.store.verdict import Verdict


def recent_verdict(
    paths: RunPaths, header: RunHeader, events: Sequence[Event], steps: pl.DataFrame, samples: pl.DataFrame
) -> Verdict:
    """The bottleneck of the period of these rows; StoreError if they make no sense."""
    run = StoredRun(paths)
    run.header, run.events = header, list(events)
    with as_store_errors(paths.id):
        start_s = float(steps["t_s"].min() or 0.0)  # type: ignore[arg-type]
        end_s = float((steps["t_s"] + steps["duration_s"]).max() or 0.0)  # type: ignore[arg-type]
        inside = samples.filter(pl.col("t_s").is_between(start_s, end_s))
        return judge_window(RunWindow(run, steps, inside), start_s, end_s)
