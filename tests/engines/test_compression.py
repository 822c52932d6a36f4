"""Training with compressed exchange: bytes on the wire, as the kernel counts them, and the loss that is reached."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import paceline
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

SLOW = pytest.mark.slow
STEPS = 150
WARM_UP = 50
"""The first updates are left out: a worker pulls the initial parameters, and links are measured."""
LAYOUTS = {"ps-sync": "p w", "ps-async": "p w", "allreduce": "w w", "local-sgd": "w w"}


def train(runs: Path, strategy: str, compress: str | None) -> Result:
    fields: dict[str, Any] = {"compress": compress} if compress else {}
    if strategy == "local-sgd":
        fields |= {"sync_every": 5}
    (result,) = paceline.run(
        "lenet", strategy=strategy, layout=LAYOUTS[strategy], hosts="netns", link="100mbit", batch=10,
        stop=f"steps={STEPS}", eval_examples=1000, runs=str(runs), **fields,
    )  # fmt: skip
    assert result.status == "ok", result.reason
    return result


def wire_bytes(result: Result) -> float:
    """What the interface of w0's host sent and received per step, by the counters of the kernel."""
    stored = StoredRun(RunPaths(Path(result.dir)))
    steps = stored.steps.filter((pl.col("kind") == "step") & (pl.col("task") == "w0")).sort("step")
    start, end = float(steps["t_s"][WARM_UP]), float(steps["t_s"][-1])
    host = next(worker.host for worker in result.workers if worker.task == "w0")
    samples = stored.samples.filter((pl.col("host") == host) & pl.col("t_s").is_between(start, end)).sort("t_s")
    total = samples["external_rx_bytes"] + samples["external_tx_bytes"]
    times = steps["t_s"].is_between(float(samples["t_s"][0]), float(samples["t_s"][-1]))
    return float(total[-1] - total[0]) / int(times.sum())


@pytest.mark.netns
@pytest.mark.alone
@pytest.mark.parametrize(
    ("strategy", "compress", "fewer"),
    [
        ("allreduce", "topk:0.01", 25),
        pytest.param("ps-async", "topk:0.01", 25, marks=SLOW),
        pytest.param("ps-sync", "topk:0.01", 25, marks=SLOW),
        pytest.param("ps-sync", "powersgd:4", 6, marks=SLOW),
        pytest.param("ps-async", "int8", 3.5, marks=SLOW),
        pytest.param("allreduce", "fp16", 1.8, marks=SLOW),
        pytest.param("allreduce", "int8", 3.3, marks=SLOW),
        pytest.param("allreduce", "powersgd:4", 6, marks=SLOW),
        pytest.param("local-sgd", "int8", 3, marks=SLOW),
    ],
)
def test_fewer_bytes_cross_the_network(tmp_path: Path, strategy: str, compress: str, fewer: float) -> None:
    whole, compressed = train(tmp_path / "whole", strategy, None), train(tmp_path / "compressed", strategy, compress)
    assert wire_bytes(whole) / wire_bytes(compressed) > fewer
    # What the workers count is what the network carries, up to headers and encryption.
    assert whole.exchanged
    assert compressed.exchanged
    assert whole.exchanged.bytes_per_example
    assert compressed.exchanged.bytes_per_example
    assert whole.exchanged.bytes_per_example / compressed.exchanged.bytes_per_example > fewer
    assert compressed.final.loss is not None
    assert whole.final.loss is not None
    assert compressed.final.loss < max(1.5 * whole.final.loss, whole.final.loss + 0.3)
