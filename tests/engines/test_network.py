"""The torch network: gradients in one flat vector, whichever way backward is called."""

import numpy as np
import pytest
import torch

from paceline.engines.torch import network
from paceline.workloads.model import Dense, Model, Relu

MODEL = Model(6, (Dense(5), Relu(), Dense(3)))
X = np.random.default_rng(1).random((4, 6), dtype=np.float32)
Y = np.array([0, 1, 2, 1])


def made() -> tuple[float, np.ndarray]:
    net = network.Network.ready(MODEL, seed=1, batch=4)
    return net.differentiate(X, Y), net.gradient.copy()


def test_without_the_private_engine_the_gradient_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, gradient = made()
    with monkeypatch.context() as changed:
        changed.setattr(torch.autograd.Variable, "_execution_engine", object())
        assert network._backward() is torch.Tensor.backward
    monkeypatch.setattr(network, "_backward", lambda: torch.Tensor.backward)
    other_loss, other_gradient = made()
    assert loss == other_loss
    assert (gradient == other_gradient).all()
    assert gradient.any()


def test_the_gradient_is_that_of_the_mean_loss() -> None:
    """Against finite differences."""
    net = network.Network.ready(MODEL, seed=1, batch=4)
    net.differentiate(X, Y)
    gradient = net.gradient.copy()
    for place in range(0, net.vector.size, 7):
        kept = net.vector[place]
        around = []
        for step in (1e-2, -1e-2):
            net.vector[place] = kept + step
            around.append(net.differentiate(X, Y))
        net.vector[place] = kept
        assert (around[0] - around[1]) / 2e-2 == pytest.approx(gradient[place], abs=2e-3)
