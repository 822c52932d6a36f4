"""The torch network computes the right gradients into one flat vector, by either implementation of backward."""

import numpy as np
import pytest
import torch

from paceline.data.batches import Batch
from paceline.engines.torch import network
from paceline.workloads.layers import Dense, Relu
from paceline.workloads.model import Model
from paceline.workloads.parameters import Vector, initial_values

MODEL = Model((6,), (Dense(5), Relu(), Dense(3)))
BATCH = Batch((np.random.default_rng(1).random((4, 6), dtype=np.float32),), np.array([0, 1, 2, 1]))


def make_network() -> tuple[network.Network, Vector]:
    """A network, and the vector in which it accumulates its gradients."""
    net = network.Network(MODEL, initial_values(MODEL.parameters, seed=1))
    gradient = np.zeros_like(net.vector)
    net.accumulate_gradients_in(gradient)
    return net, gradient


def test_gradient_is_equal_without_the_private_autograd_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    net, gradient = make_network()
    loss = net.differentiate(BATCH)
    with monkeypatch.context() as patch:
        patch.setattr(torch.autograd.Variable, "_execution_engine", object())
        assert network._backward() is torch.Tensor.backward
    monkeypatch.setattr(network, "_backward", lambda: torch.Tensor.backward)
    other, other_gradient = make_network()
    assert loss == other.differentiate(BATCH)
    assert (gradient == other_gradient).all()
    assert gradient.any()


def test_gradient_equals_finite_differences_of_the_mean_loss() -> None:
    net, accumulated = make_network()
    net.differentiate(BATCH)
    gradient = accumulated.copy()
    for index in range(0, net.vector.size, 7):
        value = net.vector[index]
        losses = []
        for change in (1e-2, -1e-2):
            net.vector[index] = value + change
            losses.append(net.differentiate(BATCH))
        net.vector[index] = value
        assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient[index], abs=2e-3)
