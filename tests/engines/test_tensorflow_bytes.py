"""What TensorFlow's parameter servers exchange with workers: each value once, by the counters of the kernel."""

from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

WARM_UP = 50
"""The first steps are left out: initial values are sent."""


def sent_per_step(result: Result) -> float:
    """Bytes that the interfaces of all hosts sent per step of w0."""
    stored = StoredRun(RunPaths(Path(result.dir)))
    steps = stored.steps.filter((pl.col("kind") == "step") & (pl.col("task") == "w0")).sort("step")
    start_s, end_s = float(steps["t_s"][WARM_UP]), float(steps["t_s"][-1])
    total, first_s, last_s = 0, start_s, end_s
    for host in result.hosts:
        at = pl.col("t_s").is_between(start_s, end_s) & (pl.col("host") == host.host)
        samples = stored.samples.filter(at).sort("t_s")
        total += samples["external_tx_bytes"][-1] - samples["external_tx_bytes"][0]
        first_s, last_s = float(samples["t_s"][0]), float(samples["t_s"][-1])
    return total / int(steps["t_s"].is_between(first_s, last_s).sum())


@pytest.mark.netns
@pytest.mark.parametrize(
    ("workload", "strategy", "layout", "steps"),
    [("logreg", "ps-sync", "p w", 600), ("lenet", "ps-async", "p p w", 200)],
)
def test_no_parameter_is_sent_more_than_once_in_a_step(
    workload: str, strategy: str, layout: str, steps: int, tmp_path: Path
) -> None:
    (result,) = paceline.run(
        workload, engine="tensorflow", strategy=strategy, layout=layout, hosts="netns", batch=10, trace_every=0,
        stop=f"steps={steps}", eval_examples=1000, runs=str(tmp_path),
    )  # fmt: skip
    exchanged = result.workers[0].exchanged
    assert exchanged
    expected = (exchanged.sent_mb + exchanged.received_mb) * 1e6 / steps
    assert 0.9 * expected < sent_per_step(result) < 1.35 * expected
