"""The product of matrices in blocks on Spark: what executors do, its phases, and real runs."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("pyspark")

import paceline
from engines.spark.test_step_times import MS, marks, share
from engines.spark.test_step_times import task as task_of
from paceline.engines.spark.event_log import JobRecord
from paceline.engines.spark.java import problems
from paceline.engines.spark.product_task import MultiplyBlocks, ProductPlan, SendBlocks
from paceline.engines.spark.step_times import account
from paceline.errors import PlanError
from paceline.store.result import Result
from paceline.workloads.block_matmul import BlockMatmul
from workloads.test_matmul import PLACEMENTS, built_in, full_matrix, trace

NEEDS_JAVA = pytest.mark.skipif(bool(problems()), reason="; ".join(problems()))
TASKS = ("w0", "w1")
Placement = Literal["colocated", "scattered"]


def multiply(plan: ProductPlan) -> float:
    """The trace as the tasks of all workers compute it, each with what the others send to it."""
    sent = dict(row for worker in range(plan.workers) for row in SendBlocks(plan)(worker, iter([0])))
    assert sorted(sent) == list(range(plan.workers))
    tasks = MultiplyBlocks(plan, fetches=True)
    shares = [next(iter(tasks(worker, [(worker, (worker, sent[worker]))]))) for worker in range(plan.workers)]
    return sum(share.loss for share in shares)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("workers", [1, 2, 3, 30])
def test_the_tasks_of_all_workers_compute_the_trace(placement: Placement, workers: int) -> None:
    """Also if there are more workers than blocks."""
    product = BlockMatmul(blocks=5, side=8, placement=placement)
    plan = ProductPlan(run=f"{placement}-{workers}", product=product, workers=workers, seed=3)
    left, right = (full_matrix(product, matrix, 3).astype(np.float64) for matrix in ("A", "B"))
    assert multiply(plan) == pytest.approx(np.einsum("ij,ji->", left, right), rel=1e-6)


def test_blocks_that_are_fetched_count_as_pull_from_the_task_that_sends_them() -> None:
    sending = [task_of(worker, 15, 30, run_ms=15) for worker in (0, 1)]
    job = JobRecord(job=1, group="step-4", submitted_ms=1_010, ended_ms=1_090, stages=[7, 8], tasks=sending)
    job.tasks += [task_of(worker, 35, 80, stage=8, run_ms=45, fetched_bytes=1_000) for worker in (0, 1)]
    shares = [share(0, "w0"), share(1, "w1")]
    step = account(marks(exchange_first=True), job, shares, TASKS, start_cost_ns=5 * MS)
    w0 = step.workers["w0"]
    # 5 ms after its launch the first task has started. The second one computes from 35 + 45 - 20 - 3 ms on.
    assert w0.launch_ns == 20 * MS
    assert w0.scheduler_ns == (5 + 5) * MS
    assert w0.pull_ns == (35 + 45 - 20 - 3 - 20) * MS
    assert (w0.data_ns, w0.compute_ns, w0.push_ns) == (3 * MS, 20 * MS, 0)
    assert step.fetched_bytes == {"w0": 1_000, "w1": 1_000}


def compute(tmp_path: Path, placement: str, **fields: Any) -> Result:
    (result,) = paceline.run(
        f"matmul:{placement}", engine="spark", strategy="bsp-sgd", runs=str(tmp_path / "runs"), check=False, **fields
    )
    assert (result.status, result.reason) == ("ok", None)
    return result


@NEEDS_JAVA
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(("workers", "layout"), [(1, "pw"), (2, "pw w"), (3, "p w w w")])
def test_the_trace_and_the_fetched_bytes_are_right(
    tmp_path: Path, workers: int, layout: str, placement: Placement
) -> None:
    result = compute(tmp_path, placement, layout=layout, stop="steps=3", seed=7)
    assert result.final.value == pytest.approx(trace(placement, 7), rel=1e-6)
    assert (result.updates, [worker.steps for worker in result.workers]) == (3, [3] * workers)
    fetches = placement == "scattered" and workers > 1
    share_mb = built_in(placement).blocks ** 2 // workers * built_in(placement).block_bytes / 1e6
    for worker in result.workers:
        # Spark counts the pickled blocks.
        assert worker.fetched_mb == pytest.approx(3 * share_mb if fetches else 0.0, rel=1e-3)
        assert worker.phases["compute"] > 0
        assert not fetches or worker.phases["pull"] > 0
    # Every worker multiplied its own blocks in its own executor.
    assert result.details["failed_tasks"] == result.details["executors_lost"] == 0
    assert (result.batch, result.examples, result.examples_per_s) == (0, 0, 0.0)


@NEEDS_JAVA
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_that_exists_already_computes_the_same(tmp_path: Path) -> None:
    result = compute(tmp_path, "scattered", layout="pw w", stop="steps=2", master="local[2]", seed=7)
    assert result.final.value == pytest.approx(trace("scattered", 7), rel=1e-6)


def test_lbfgs_is_refused() -> None:
    with pytest.raises(PlanError, match="matmul:colocated does not support strategy lbfgs"):
        paceline.run("matmul", engine="spark", strategy="lbfgs", layout="pw w")
