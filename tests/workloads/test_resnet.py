"""ResNet: both engines compute the same, and the layers refuse what they cannot do."""

import numpy as np
import pytest

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
