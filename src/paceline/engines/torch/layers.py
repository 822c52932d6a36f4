"""The neutral layers in PyTorch. Images are laid out as data sets have them, channels last."""

from collections.abc import Iterator, Sequence
from typing import Any

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
Places = dict[torch.Tensor, torch.Tensor | None]
_LARGE = 2**20


class Layers(torch.nn.Module):
    """A neutral model over tensors that are given to it, in the order of `Model.parameters`."""

    def __init__(self, model: Model, tensors: Sequence[torch.nn.Parameter]) -> None:
        super().__init__()
        self._layers, self._inputs = model.layers, model.inputs
        self._tensors = tensors
        self.places: Places = {tensor: None for tensor in tensors if tensor.ndim == 2 and tensor.numel() >= _LARGE}
        """Large weights, and where backward writes their gradients: without a place of its own, over the last one."""
        for shape, tensor in zip(model.parameters, tensors, strict=True):
            self.register_parameter(shape.name.replace(".", "_"), tensor)

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        if len(self._inputs) == 3:
            x = x.view(-1, *self._inputs).permute(0, 3, 1, 2)
        return _apply(self._layers, x, iter(self._tensors), iter(more), self.places)


def _apply(
    layers: Sequence[Layer],
    x: torch.Tensor,
    tensors: Iterator[torch.Tensor],
    more: Iterator[torch.Tensor],
    places: Places,
) -> torch.Tensor:
    for layer in layers:
        match layer:
            case Dense():
                weight, bias = next(tensors), next(tensors)
                x = _dense(x, weight, bias, places)
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
                x = _look(layer, x, tensors, places)
            case SparseLinear():
                weight, bias = next(tensors), next(tensors)
                x = ((weight[x] * next(more)).sum(1) + bias).unsqueeze(1)
    return x


def _dense(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, places: Places) -> torch.Tensor:
    if weight in places:
        return _LargeDense.apply(x, weight, bias, places[weight])
    return torch.addmm(bias, x, weight)


class _LargeDense(torch.autograd.Function):
    """A dense layer that writes its weight's gradient to its place.

    Left to autograd it would be made in fresh memory and then moved: of a large matrix, that costs more than the
    product itself. Nothing is handed on for the weight, but hooks on its gradient's node are called all the same.
    """

    @staticmethod
    def forward(
        context: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, place: torch.Tensor | None
    ) -> torch.Tensor:
        context.save_for_backward(x)
        context.weight, context.place = weight, place
        return torch.addmm(bias, x, weight)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (x,), weight = context.saved_tensors, context.weight
        place = weight.grad if context.place is None else context.place
        of_x, of_bias = gradient @ weight.t(), gradient.sum(0)
        if place is None:
            return of_x, x.t() @ gradient, of_bias, None
        torch.mm(x.t(), gradient, out=place)
        return of_x, None, of_bias, None


def _look(
    layer: SpatialTransformer, image: torch.Tensor, tensors: Iterator[torch.Tensor], places: Places
) -> torch.Tensor:
    found = _apply(layer.localisation, image, tensors, iter(()), places)
    weight, bias = next(tensors), next(tensors)
    affine = _dense(found, weight, bias, places).view(-1, 2, 3)
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
