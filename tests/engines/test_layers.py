"""All engines compute the same outputs, loss and gradients for every built-in model on the same random batch."""

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

MODELS = {size.title: size.model for sizes in WORKLOADS.values() for size in sizes.values() if size.model}


def random_batch(model: Model, size: int) -> Batch:
    random = np.random.default_rng(7)
    outputs = model.shapes[-1][-1]

    def random_array(shape: tuple[int, ...], dtype: str) -> Array:
        if dtype == "float32":
            return np.stack([smooth_signal(random, shape[0]) for _ in range(size)])
        limit = 2 if dtype == "uint8" else (model.sparse.features if model.sparse else outputs)
        return random.integers(0, limit, (size, *shape)).astype(dtype)

    # The models of text have a label for each token, all others one for each example.
    labels = random.integers(0, max(2, outputs), (size, *model.target.shape) if model.tokens else size)
    return Batch(tuple(random_array(feed.shape, feed.dtype) for feed in model.feeds), labels)


def smooth_signal(random: np.random.Generator, width: int) -> Array:
    """A sum of sine waves, without noise from pixel to pixel.

    The gradient of the spatial transformer's sampler jumps where a sampling point crosses a pixel. With noise, these
    jumps would be large, and the engines, which round differently, would make them at different points.
    """
    x = np.linspace(0, 1, width, dtype=np.float32)
    waves = [random.random() * np.sin(2 * np.pi * (k * x + random.random())) for k in range(1, 9)]
    return np.asarray(np.sum(waves, axis=0), np.float32)


def perturbed_values(model: Model) -> Vector:
    """Initial values with noise. With the initial values alone, a spatial transformer is the identity and its sampling
    would not be tested."""
    values = initial_values(model.parameters, seed=3)
    if model.size < 1_000_000:
        values += np.random.default_rng(5).normal(0, 0.02, values.size).astype(np.float32)
    return values


def compute_in_torch(model: Model, batch: Batch, values: Vector | None = None) -> tuple[float, Vector, Array]:
    """Loss, gradient and outputs with these values of the parameters, or else with `perturbed_values`."""
    network = Network(model, perturbed_values(model) if values is None else values)
    gradient = np.zeros_like(network.vector)
    network.accumulate_gradients_in(gradient)
    loss = network.differentiate(batch)
    return loss, gradient, network.predict(*batch.inputs[: len(model.data_feeds)])


def compute_in_tensorflow(model: Model, batch: Batch) -> tuple[float, Vector, Array]:
    """Loss, gradient and outputs."""
    variables = [tf.Variable(value) for value in views(perturbed_values(model), model.parameters).values()]
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
        compute(model, batch) for compute in (compute_in_torch, compute_in_tensorflow)
    )
    assert loss == pytest.approx(other_loss, abs=1e-4)
    assert outputs.shape == other_outputs.shape == (len(batch.target), *model.shapes[-1])
    assert np.abs(outputs - other_outputs).max() < 1e-4
    assert np.abs(gradient).max() > 1e-4
    difference = np.linalg.norm(gradient - other_gradient)
    if difference > 1e-3 * np.linalg.norm(gradient):
        # A deep model enlarges rounding errors: compare with what the smallest change of all parameters does.
        _, rounded, _ = compute_in_torch(model, batch, np.nextafter(perturbed_values(model), np.float32(np.inf)))
        assert difference < 4 * np.linalg.norm(gradient - rounded) < 0.02 * np.linalg.norm(gradient)
