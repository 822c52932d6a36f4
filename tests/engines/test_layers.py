"""Every built-in model means the same in every engine: outputs, loss and gradients on the same random batch."""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import pytest
import tensorflow as tf

from paceline.data.batches import Array, Batch
from paceline.engines.tensorflow import network as tensorflow_network
from paceline.engines.torch.network import Network
from paceline.workloads.model import Model
from paceline.workloads.parameters import Vector, initial_values, views
from paceline.workloads.registry import WORKLOADS

MODELS = {one.title: one.model for sizes in WORKLOADS.values() for one in sizes.values() if one.model}


def random_batch(model: Model, size: int) -> Batch:
    random = np.random.default_rng(7)
    outputs = model.shapes[-1][0]

    def feed(shape: tuple[int, ...], dtype: str) -> Array:
        if dtype == "float32":
            return np.stack([smooth(random, shape[0]) for _ in range(size)])
        most = 2 if dtype == "uint8" else (model.sparse.features if model.sparse else outputs)
        return random.integers(0, most, (size, *shape)).astype(dtype)

    labels = random.integers(0, max(2, outputs), size)
    return Batch(tuple(feed(one.shape, one.dtype) for one in model.feeds), labels)


def smooth(random: np.random.Generator, width: int) -> Array:
    """No noise from pixel to pixel: a sampler's gradient jumps where it crosses one, at another rounding elsewhere."""
    x = np.linspace(0, 1, width, dtype=np.float32)
    waves = [random.random() * np.sin(2 * np.pi * (k * x + random.random())) for k in range(1, 9)]
    return np.asarray(np.sum(waves, axis=0), np.float32)


def values_of(model: Model) -> Vector:
    """Not the first values: a spatial transformer that has not learned anything looks straight ahead."""
    values = initial_values(model.parameters, seed=3)
    if model.size < 1_000_000:
        values += np.random.default_rng(5).normal(0, 0.02, values.size).astype(np.float32)
    return values


def in_torch(model: Model, batch: Batch) -> tuple[float, Vector, Array]:
    network = Network(model, values_of(model))
    gradient = np.zeros_like(network.vector)
    network.keep_gradients_in(gradient)
    loss = network.differentiate(batch)
    return loss, gradient, network.predict(*batch.inputs[: len(model.data_feeds)])


def in_tensorflow(model: Model, batch: Batch) -> tuple[float, Vector, Array]:
    variables = [tf.Variable(value) for value in views(values_of(model), model.parameters).values()]
    inputs = [tf.constant(array) for array in batch.inputs]
    with tf.GradientTape() as tape:
        loss = tensorflow_network.mean_loss(model, inputs, tf.constant(batch.target), variables)
    gradients = [tf.convert_to_tensor(g).numpy().ravel() for g in tape.gradient(loss, variables)]
    outputs = tensorflow_network.outputs(model, inputs[: len(model.data_feeds)], variables).numpy()
    return float(loss), np.concatenate(gradients), outputs


@pytest.mark.parametrize("title", MODELS)
def test_engines_agree_on_every_model(title: str) -> None:
    model = MODELS[title]
    batch = random_batch(model, 2 if model.size > 1_000_000 else 9)
    (loss, gradient, outputs), (other_loss, other_gradient, other_outputs) = (
        compute(model, batch) for compute in (in_torch, in_tensorflow)
    )
    assert loss == pytest.approx(other_loss, abs=1e-4)
    assert outputs.shape == other_outputs.shape == (len(batch.target), *model.shapes[-1])
    assert np.abs(outputs - other_outputs).max() < 1e-4
    assert np.abs(gradient).max() > 1e-4
    assert np.linalg.norm(gradient - other_gradient) < 1e-3 * np.linalg.norm(gradient)
