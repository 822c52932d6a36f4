"""The product of two matrices in blocks: which worker stores what, the result, and the cost of fetching."""

from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import paceline
from paceline.analyze.comparison import compare
from paceline.errors import PlanError
from paceline.store.result import Result
from paceline.terminal.compare import comparison_view
from paceline.terminal.details import details
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.registry import workload

PLACEMENTS: tuple[Literal["colocated", "scattered"], ...] = ("colocated", "scattered")
LAYOUTS = {1: "w", 2: "w w", 3: "w w w"}

products = st.builds(
    BlockMatmul, blocks=st.integers(1, 7), side=st.just(2), placement=st.sampled_from(PLACEMENTS)
)  # fmt: skip


def compute(tmp_path: Path, placement: str, **fields: Any) -> Result:
    (result,) = paceline.run(f"matmul:{placement}", runs=str(tmp_path / "runs"), check=False, **fields)
    assert (result.status, result.reason) == ("ok", None)
    return result


def built_in(placement: str) -> BlockMatmul:
    product = workload("matmul", placement).blocks
    assert product
    return product


def full_matrix(product: BlockMatmul, matrix: Literal["A", "B"], seed: int) -> np.ndarray:
    numbers = range(product.blocks)
    return np.block([[product.block(matrix, row, column, seed) for column in numbers] for row in numbers])


@cache
def trace(placement: str, seed: int) -> float:
    """The trace of A B in double precision, without computing the rest of the product."""
    left, right = (full_matrix(built_in(placement), matrix, seed).astype(np.float64) for matrix in ("A", "B"))
    return float(np.einsum("ij,ji->", left, right))


def fastest_step(result: Result) -> float:
    """The duration of the fastest step, which was disturbed least by other processes."""
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    return float(steps["duration_s"].min())  # type: ignore[arg-type]


# ---- which worker stores and multiplies what ----


@given(products, st.integers(1, 9))
def test_each_product_has_one_worker_and_each_partner_is_stored_once(product: BlockMatmul, workers: int) -> None:
    all_pairs = [(i, j) for i in range(product.blocks) for j in range(product.blocks)]
    multiplied = [pair for worker in range(workers) for pair in product.pairs_of(worker, workers)]
    stored = [pair for worker in range(workers) for pair in product.partners_of(worker, workers)]
    assert sorted(multiplied) == sorted(stored) == all_pairs
    counts = [len(product.pairs_of(worker, workers)) for worker in range(workers)]
    assert max(counts) - min(counts) <= 1


@given(products, st.integers(1, 9))
def test_partners_are_all_on_one_worker_or_all_on_different_ones(product: BlockMatmul, workers: int) -> None:
    for worker in range(workers):
        for i, j in product.pairs_of(worker, workers):
            colocated = product.partner_owner(i, j, workers) == worker == product.block_owner(i, j, workers)
            assert colocated == (product.placement == "colocated" or workers == 1)


@given(products, st.integers(0, 2**32))
def test_the_traces_of_the_blocks_sum_to_the_trace(product: BlockMatmul, seed: int) -> None:
    parts = [
        np.trace(product.block("A", i, j, seed).astype(np.float64) @ product.block("B", j, i, seed))
        for worker in range(3)
        for i, j in product.pairs_of(worker, 3)
    ]
    left, right = (full_matrix(product, matrix, seed).astype(np.float64) for matrix in ("A", "B"))
    assert sum(parts) == pytest.approx(np.trace(left @ right))


def test_blocks_depend_on_matrix_position_and_seed() -> None:
    product = built_in("colocated")
    first = product.block("A", 0, 1, seed=1)
    assert (first == product.block("A", 0, 1, seed=1)).all()
    assert first.nbytes == product.block_bytes
    for other in (("B", 0, 1, 1), ("A", 1, 0, 1), ("A", 0, 1, 2)):
        assert (first != product.block(*other)).any()


# ---- real runs ----


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("workers", LAYOUTS)
@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_the_trace_and_the_fetched_bytes_are_right(tmp_path: Path, engine: str, workers: int, placement: str) -> None:
    strategy = "single" if workers == 1 else "allreduce"
    result = compute(
        tmp_path, placement, engine=engine, strategy=strategy, layout=LAYOUTS[workers], stop="steps=2", seed=7
    )
    assert result.final.value == pytest.approx(trace(placement, 7), rel=1e-6)
    assert (result.final.loss, result.final.accuracy) == (None, None)
    assert (result.updates, [worker.steps for worker in result.workers]) == (2, [2] * workers)
    fetches = placement == "scattered" and workers > 1
    share_bytes = built_in(placement).blocks ** 2 // workers * built_in(placement).block_bytes
    assert [worker.fetched_mb for worker in result.workers] == [2 * share_bytes / 1e6 if fetches else 0.0] * workers
    for worker in result.workers:
        assert worker.phases["compute"] > 0
        assert (worker.phases.get("pull", 0.0) > 0) == fetches
    assert (result.batch, result.examples, result.examples_per_s) == (0, 0, 0.0)
    assert not (Path(result.dir) / "checkpoints" / "final.safetensors").exists()


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_workers_stop_together_after_a_time(tmp_path: Path, engine: str) -> None:
    result = compute(tmp_path, "scattered", engine=engine, strategy="allreduce", layout="w w", stop="seconds=1.5")
    assert result.reached
    assert result.reached.rule == "seconds=1.5"
    assert result.workers[0].steps == result.workers[1].steps == result.updates > 0
    assert 1.5 <= result.train_s < 6


def test_an_epoch_is_one_product(tmp_path: Path) -> None:
    assert compute(tmp_path, "colocated", stop="epochs=2").updates == 2


@pytest.mark.alone
@pytest.mark.netns
@pytest.mark.parametrize("engine", ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_colocated_blocks_are_faster_on_a_slow_link(tmp_path: Path, engine: str) -> None:
    colocated, scattered = (
        compute(
            tmp_path, placement, engine=engine, strategy="allreduce", layout="w w", hosts="netns", link="1gbit",
            stop="steps=5",
        )
        for placement in PLACEMENTS
    )  # fmt: skip
    assert colocated.final.value == pytest.approx(scattered.final.value, rel=1e-6)
    assert fastest_step(scattered) > 1.25 * fastest_step(colocated)
    for worker, host in zip(scattered.workers, scattered.hosts, strict=True):
        # Packet headers are counted as well.
        assert host.external.rx_mb_s_mean * scattered.train_s == pytest.approx(worker.fetched_mb, rel=0.15)
        assert worker.phases["pull"] > 0.9 * worker.fetched_mb / 125
    for host in colocated.hosts:
        assert host.external.rx_mb_s_mean * colocated.train_s < 1


# ---- invalid options ----


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"strategy": "ps-sync"}, "does not support strategy ps-sync"),
        ({"strategy": "ps-async", "size": "scattered"}, "does not support strategy ps-async"),
        ({"stop": "loss=0.1"}, "is not training and has no loss or accuracy"),
        ({"stop": "accuracy=0.9"}, "is not training and has no loss or accuracy"),
        ({"examples": 10}, "matmul is not training and has no examples"),
    ],
)
def test_invalid_options_are_rejected(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        paceline.run("matmul", runs=str(tmp_path), **fields)


# ---- output ----


def test_the_output_shows_the_value_and_no_loss_or_accuracy(tmp_path: Path) -> None:
    results = [
        compute(tmp_path, placement, strategy="allreduce", layout="w w", stop="steps=2") for placement in PLACEMENTS
    ]
    console = Console(width=250, record=True, file=StringIO())
    console.print(details(results[1]))
    text = console.export_text(clear=True)
    assert f"{results[1].final.value:,.10g}" in text
    assert "144 / 72.0" in text  # The total and per update.
    assert not any(word in text for word in ("batch", "examples", "loss", "accuracy", "staleness"))
    console.print(comparison_view(compare(results)))
    text = console.export_text()
    assert f"{results[1].final.value:,.10g}" in text
    assert "size scattered" in text
    assert not any(word in text for word in ("batch", "examples", "loss", "accuracy", "staleness", "target"))
