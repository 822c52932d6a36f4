"""The layers in NumPy: their gradient is that of torch, and the rows of a sparse model are those of the whole."""

import numpy as np
import pytest
import torch

from paceline.data.batches import Batch
from paceline.engines.spark.gradient_task import rows_gradient
from paceline.engines.spark.numpy_model import NumpyModel
from paceline.workloads.layers import Dense, Dropout, Relu, Sigmoid, SparseLinear, Tanh
from paceline.workloads.model import Loss, Model
from paceline.workloads.parameters import views

EXAMPLES = 7


def batch_of(model: Model) -> Batch:
    random = np.random.default_rng(1)
    inputs = random.random((EXAMPLES, model.inputs[0]), np.float32)
    masks = tuple(random.integers(0, 2, (EXAMPLES, size)).astype(np.uint8) for size in model.mask_sizes)
    outputs = model.shapes[-1][0]
    if model.loss == "squared":
        return Batch((inputs, *masks), random.random((EXAMPLES, outputs), np.float32))
    return Batch((inputs, *masks), random.integers(0, 2 if model.loss == "logistic" else outputs, EXAMPLES))


def torch_loss(model: Model, values: torch.Tensor, batch: Batch) -> torch.Tensor:
    rows, at, masks = torch.from_numpy(batch.inputs[0]), 0, list(batch.inputs[1:])
    for number, layer in enumerate(model.layers):
        match layer:
            case Dense(units):
                width = rows.shape[1]
                weight = values[at : at + width * units].reshape(width, units)
                bias = values[at + width * units : at + width * units + units]
                rows, at = rows @ weight + bias, at + width * units + units
            case Relu():
                rows = torch.relu(rows)
            case Sigmoid():
                rows = torch.sigmoid(rows)
            case Tanh():
                rows = torch.tanh(rows)
            case Dropout(rate):
                rows = rows * torch.from_numpy(masks.pop(0)) / (1 - rate)
        assert number < len(model.layers)
    target = torch.from_numpy(batch.target)
    match model.loss:
        case "softmax":
            return torch.nn.functional.cross_entropy(rows, target)
        case "logistic":
            return torch.nn.functional.binary_cross_entropy_with_logits(rows[:, 0], target.float())
        case "reconstruction":
            return ((rows - torch.from_numpy(batch.inputs[0])) ** 2).sum() / 2 / EXAMPLES
        case _:
            return ((rows - target) ** 2).sum() / 2 / EXAMPLES


@pytest.mark.parametrize(
    ("layers", "loss"),
    [
        ((Dense(4),), "softmax"),
        ((Dense(6), Relu(), Dropout(0.5), Dense(3)), "softmax"),
        ((Dense(3), Sigmoid(), Dense(5), Sigmoid()), "reconstruction"),
        ((Dense(4), Sigmoid(), Dense(2)), "squared"),
        ((Dense(4), Tanh(), Dense(3)), "softmax"),
        ((Dense(1),), "logistic"),
    ],
)
def test_loss_and_gradient_are_those_of_torch(layers: tuple[Dense, ...], loss: Loss) -> None:
    model = Model((5,), layers, loss)
    batch, values = batch_of(model), model.first(3) + np.float32(0.01)
    found = NumpyModel(model).loss_and_gradient(values, batch)
    tensor = torch.from_numpy(values.copy()).requires_grad_()
    expected = torch_loss(model, tensor, batch)
    expected.backward()
    assert tensor.grad is not None
    assert found.loss == pytest.approx(float(expected.detach()), rel=1e-5)
    np.testing.assert_allclose(found.gradient, tensor.grad.numpy(), rtol=2e-5, atol=1e-6)


def test_rows_of_a_sparse_gradient_are_those_of_the_whole_gradient() -> None:
    features = 50
    model = Model((3,), (SparseLinear(features, 3, whole=True),), loss="logistic")
    random = np.random.default_rng(2)
    indices = random.integers(0, features, (EXAMPLES, 3))
    batch = Batch((indices, np.ones((EXAMPLES, 3), np.float32)), random.integers(0, 2, EXAMPLES))
    values = random.normal(size=features + 1).astype(np.float32)
    whole = NumpyModel(model).loss_and_gradient(values, batch)
    # The driver sends the rows of all workers: some of them this batch does not use.
    known = np.append(np.unique(np.append(indices, [0, 49])), features)
    loss, (rows, gradient) = rows_gradient(known, values[known], batch)
    assert loss == pytest.approx(whole.loss, rel=1e-6)
    assert set(rows) == {*indices.reshape(-1), features}
    np.testing.assert_allclose(gradient, whole.gradient[rows], rtol=1e-5)
    assert np.count_nonzero(whole.gradient) == np.count_nonzero(gradient)
    assert views(whole.gradient, model.parameters)["0.bias"].shape == (1,)
