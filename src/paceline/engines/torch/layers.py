"""The neutral layers in PyTorch. Images are laid out as data sets have them, channels last."""

from collections.abc import Iterator, Sequence

import torch
from torch.nn import functional

from paceline.workloads.layers import (
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    MaxPool,
    Relu,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
)
from paceline.workloads.model import Loss, Model

Tensors = Sequence[torch.Tensor]


class Layers(torch.nn.Module):
    """A neutral model over tensors that are given to it, in the order of `Model.parameters`."""

    def __init__(self, model: Model, tensors: Sequence[torch.nn.Parameter]) -> None:
        super().__init__()
        self._layers, self._inputs = model.layers, model.inputs
        self._tensors = tensors
        for shape, tensor in zip(model.parameters, tensors, strict=True):
            self.register_parameter(shape.name.replace(".", "_"), tensor)

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        if len(self._inputs) == 3:
            x = x.view(-1, *self._inputs).permute(0, 3, 1, 2)
        return _apply(self._layers, x, iter(self._tensors), iter(more))


def _apply(
    layers: Sequence[Layer], x: torch.Tensor, tensors: Iterator[torch.Tensor], more: Iterator[torch.Tensor]
) -> torch.Tensor:
    for layer in layers:
        match layer:
            case Dense():
                weight, bias = next(tensors), next(tensors)
                x = torch.addmm(bias, x, weight)
            case Conv():
                weight, bias = next(tensors), next(tensors)
                x = functional.conv2d(x, weight, bias, layer.stride, layer.padding)
            case MaxPool(size, stride):
                x = functional.max_pool2d(x, size, stride)
            case AveragePool(size, stride):
                x = functional.avg_pool2d(x, size, stride)
            case Relu():
                x = functional.relu(x)
            case Sigmoid():
                x = torch.sigmoid(x)
            case Flatten():
                x = x.flatten(1)
            case Dropout(rate):
                # No mask: not training.
                if (mask := next(more, None)) is not None:
                    x = x * mask * (1 / (1 - rate))
            case SpatialTransformer():
                x = _look(layer, x, tensors)
            case SparseLinear():
                weight, bias = next(tensors), next(tensors)
                x = ((weight[x] * next(more)).sum(1) + bias).unsqueeze(1)
    return x


def _look(layer: SpatialTransformer, image: torch.Tensor, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    found = _apply(layer.localisation, image, tensors, iter(()))
    weight, bias = next(tensors), next(tensors)
    affine = torch.addmm(bias, found, weight).view(-1, 2, 3)
    grid = functional.affine_grid(affine, [*image.shape[:2], layer.size, layer.size], align_corners=True)
    return functional.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def mean_loss(loss: Loss, outputs: torch.Tensor, inputs: Tensors, target: torch.Tensor) -> torch.Tensor:
    match loss:
        case "softmax":
            return functional.cross_entropy(outputs, target)
        case "logistic":
            return functional.binary_cross_entropy_with_logits(outputs[:, 0], target.to(outputs.dtype))
        case "reconstruction":
            return functional.mse_loss(outputs, inputs[0], reduction="sum") / (2 * len(outputs))
        case "squared":
            return functional.mse_loss(outputs, target.view_as(outputs), reduction="sum") / (2 * len(outputs))
