"""The torch network: gradients in one flat vector, whichever way backward is called."""

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


def made() -> tuple[network.Network, Vector]:
    net = network.Network(MODEL, initial_values(MODEL.parameters, seed=1))
    gradient = np.zeros_like(net.vector)
    net.keep_gradients_in(gradient)
    return net, gradient


def test_without_the_private_engine_the_gradient_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net, gradient = made()
    loss = net.differentiate(BATCH)
    with monkeypatch.context() as changed:
        changed.setattr(torch.autograd.Variable, "_execution_engine", object())
        assert network._backward() is torch.Tensor.backward
    monkeypatch.setattr(network, "_backward", lambda: torch.Tensor.backward)
    other, other_gradient = made()
    assert loss == other.differentiate(BATCH)
    assert (gradient == other_gradient).all()
    assert gradient.any()


def test_the_gradient_is_that_of_the_mean_loss() -> None:
    """Against finite differences."""
    net, kept_in = made()
    net.differentiate(BATCH)
    gradient = kept_in.copy()
    for place in range(0, net.vector.size, 7):
        kept = net.vector[place]
        around = []
        for step in (1e-2, -1e-2):
            net.vector[place] = kept + step
            around.append(net.differentiate(BATCH))
        net.vector[place] = kept
        assert (around[0] - around[1]) / 2e-2 == pytest.approx(gradient[place], abs=2e-3)
