"""ResNet: both engines compute the same, and the layers refuse what they cannot do."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import paceline
from paceline.data.batches import Batch
from paceline.workloads.layers import Conv, Dense, GroupNorm, Relu, Residual, Tanh, shape_after, with_activation
from paceline.workloads.operations import training_operations
from paceline.workloads.parameters import views
from paceline.workloads.resnet import SIZES


def test_engines_have_the_same_loss_and_gradients() -> None:
    pytest.importorskip("torch")
    tf = pytest.importorskip("tensorflow")
    from paceline.engines.tensorflow import network
    from paceline.engines.torch.network import Network

    assert SIZES[0].model
    # Not with ReLU: a value that rounds to either side of 0 changes the gradient.
    model = SIZES[0].model.changed(init=None, activation="tanh")
    random = np.random.default_rng(2)
    batch = Batch((random.random((4, 3072), np.float32),), random.integers(0, 10, 4))
    values = model.first(3)
    by_torch = Network(model, values.copy())
    loss = by_torch.differentiate(batch)
    variables = [tf.Variable(value) for value in views(values, model.parameters).values()]
    with tf.GradientTape() as tape:
        other = network.mean_loss(model, [tf.constant(batch.inputs[0])], tf.constant(batch.target), variables)
    gradients = tape.gradient(other, variables)
    assert loss == pytest.approx(float(other), rel=1e-5)
    for tensor, gradient in zip(by_torch.tensors, gradients, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(tensor.grad.numpy(), gradient.numpy(), atol=2e-5)


def test_size_and_operations_are_those_of_the_paper() -> None:
    model = SIZES[0].model
    assert model
    # 0.27 million parameters; about 41 million multiplications forward, each with an addition, and three passes.
    assert 0.26e6 < model.size < 0.29e6
    assert 2.2e8 < training_operations(model.layers, model.inputs) < 2.8e8


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot divide 6 channels into 4 groups"):
        shape_after(GroupNorm(4), (8, 8, 6))
    with pytest.raises(ValueError, match="only images may change"):
        shape_after(Residual((Dense(3),)), (5,))
    assert shape_after(Residual((Conv(4, 3, 2, 1),)), (8, 8, 2)) == (4, 4, 4)
    assert with_activation((Residual((Relu(),)),), "tanh") == (Residual((Tanh(),)),)


@pytest.mark.slow
def test_runs_of_engines_and_strategies_have_the_same_losses(tmp_path: Path) -> None:
    """At the same global batch. Rounding errors grow quickly where ReLU is 0 on one side, so only the first steps."""
    losses = {}
    for engine, strategy, layout in (
        ("torch", "single", "w"), ("tensorflow", "single", "w"), ("torch", "ps-sync", "pw w"),
        ("tensorflow", "ps-sync", "pw w"), ("torch", "allreduce", "w w"), ("tensorflow", "allreduce", "w w"),
    ):  # fmt: skip
        (result,) = paceline.run(
            "resnet", engine=engine, strategy=strategy, layout=layout, batch=16 // layout.count("w"), lr=0.02,
            stop="steps=6", examples=500, eval_examples=32, runs=str(tmp_path),
        )  # fmt: skip
        steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
        by_step = steps.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"]
        losses[engine, strategy] = by_step.to_numpy()
        assert result.model_flops_utilisation
    reference = losses["torch", "single"]
    for cell, found in losses.items():
        assert np.abs(found - reference).max() < 5e-3, cell
