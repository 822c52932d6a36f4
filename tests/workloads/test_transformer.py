"""The transformer: both engines compute the same, and every synchronous strategy trains it alike."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import paceline
from paceline.data.batches import Share
from paceline.data.registry import load
from paceline.data.text import VOCABULARY, TextData, synthetic_text
from paceline.errors import DataError
from paceline.store.result import Result
from paceline.workloads.layers import Embedding, TransformerBlock, shape_after
from paceline.workloads.operations import training_operations
from paceline.workloads.parameters import views
from paceline.workloads.transformer import SIZES

SMALL = SIZES[0]
SHARE = Share(batch=6, workers=2, index=0, seed=1)


def test_engines_have_the_same_loss_and_gradients() -> None:
    torch, tf = pytest.importorskip("torch"), pytest.importorskip("tensorflow")
    from paceline.engines.tensorflow import network
    from paceline.engines.torch.network import Network

    assert torch
    model, batch = SMALL.model, load("text").stream(SHARE).at(0)
    assert model
    values = model.first(3)
    by_torch = Network(model, values.copy())
    loss = by_torch.differentiate(batch)
    variables = [tf.Variable(value) for value in views(values, model.parameters).values()]
    with tf.GradientTape() as tape:
        other = network.mean_loss(model, [tf.constant(batch.inputs[0])], tf.constant(batch.target), variables)
    gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(other, variables)]
    assert loss == pytest.approx(float(other), rel=1e-5)
    assert loss == pytest.approx(np.log(VOCABULARY), rel=0.1)
    for tensor, gradient in zip(by_torch.tensors, gradients, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, atol=2e-6)


def test_no_token_sees_a_later_one() -> None:
    pytest.importorskip("torch")
    from paceline.engines.torch.network import Network

    assert SMALL.model
    network = Network(SMALL.model, SMALL.model.first(1))
    tokens = np.zeros((1, 64), np.int64)
    changed = tokens.copy()
    changed[0, 40] = 5
    first, second = network.predict(tokens), network.predict(changed)
    assert np.allclose(first[:, :40], second[:, :40], atol=1e-6)
    assert not np.allclose(first[:, 40], second[:, 40])


def test_the_target_is_the_next_character_and_workers_share_a_batch() -> None:
    data = TextData(16).load(100, None)
    whole = data.stream(Share(batch=8, workers=1, index=0, seed=1)).at(3)
    halves = [data.stream(Share(batch=4, workers=2, index=index, seed=1)).at(3) for index in (0, 1)]
    assert np.array_equal(whole.inputs[0][:, 1:], whole.target[:, :-1])
    assert np.array_equal(np.concatenate([half.target for half in halves]), whole.target)
    assert all(batch.target.max() < VOCABULARY for batch in data.test())
    assert bytes(synthetic_text(50_000)).count(b". ") > 100


def test_a_text_of_the_user_is_read_and_one_that_is_too_short_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    (tmp_path / "text.txt").write_text("abc " * 1000 + "é")
    prepared = TextData(16).ensure()
    assert prepared.source == "text of text.txt"
    assert set(np.unique(TextData(16).load(None, prepared).stream(SHARE).at(0).target)) <= set(b"abc ")
    (tmp_path / "text.txt").write_text("short")
    with pytest.raises(DataError, match="needs at least 360"):
        TextData(16).ensure()


def test_operations_and_shapes_of_a_block() -> None:
    with pytest.raises(ValueError, match="multiple of the number of heads"):
        shape_after(TransformerBlock(3), (8, 64))
    forward = 8 * 2 * 12 * 64**2 + 4 * 8 * 8 * 64
    assert training_operations((Embedding(10, 64), TransformerBlock(4)), (8,)) == 3 * (8 + forward)


CELLS = [("ps-sync", "pw w"), ("allreduce", "w w"), ("single", "w")]


def first_losses(tmp_path: Path, engine: str, strategy: str, layout: str) -> np.ndarray:
    (result,) = paceline.run(
        "transformer", engine=engine, strategy=strategy, layout=layout, batch=16 // layout.count("w"),
        stop="steps=20", eval_examples=50, runs=str(tmp_path),
    )  # fmt: skip
    assert result.status == "ok", result.reason
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    return steps.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"].to_numpy()


def check_losses(tmp_path: Path, cells: list[tuple[str, str, str]]) -> None:
    reference = first_losses(tmp_path, "torch", "single", "w")
    assert reference.shape == (20,)
    assert reference[0] - reference[-1] > 0.5
    for cell in cells:
        assert np.abs(first_losses(tmp_path, *cell) - reference).max() < 1e-3, cell


def test_engines_and_strategies_have_the_same_first_losses(tmp_path: Path) -> None:
    """With adamw, at the same global batch."""
    check_losses(tmp_path, [("tensorflow", "allreduce", "w w"), ("torch", "ps-sync", "pw w")])


@pytest.mark.slow
def test_all_engines_and_synchronous_strategies_have_the_same_first_losses(tmp_path: Path) -> None:
    check_losses(tmp_path, [(engine, *cell) for engine in ("torch", "tensorflow") for cell in CELLS])


@pytest.mark.slow
def test_the_large_transformer_runs(run_one: Callable[..., Result], tmp_path: Path) -> None:
    (result,) = paceline.run("transformer", size="large", batch=2, stop="steps=3", eval_examples=4, runs=str(tmp_path))
    assert result.status == "ok", result.reason
