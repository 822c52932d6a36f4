"""Implements the framework-neutral layers and losses of `workloads.layers` in PyTorch.

Data sets store images with channels last. `Layers.forward` permutes them to channels first, as torch expects.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

from paceline.workloads.layers import (
    NORM_EPSILON,
    AveragePool,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    MaxPool,
    Relu,
    Residual,
    Sigmoid,
    SparseLinear,
    SpatialTransformer,
    Tanh,
    TransformerBlock,
    shortcut_stride,
)
from paceline.workloads.model import Loss, Model

Tensors = Sequence[torch.Tensor]
GradientBuffers = dict[torch.Tensor, torch.Tensor | None]
"""For each large weight, the tensor into which backward writes its gradient; None: into its `grad`, if it has one."""
_NO_LABEL = -100
"""The label that torch leaves out of a cross-entropy."""
_LARGE_WEIGHT = 2**20
"""The number of values from which on a weight counts as large (4 MiB). See `_LargeDense` for what it saves."""


class Layers(torch.nn.Module):
    """A framework-neutral model as a torch module. It uses the given tensors, in the order of `Model.parameters`."""

    def __init__(self, model: Model, tensors: Sequence[torch.nn.Parameter]) -> None:
        super().__init__()
        self._layers, self._inputs = model.layers, model.inputs
        self._tensors = tensors
        self.gradient_buffers: GradientBuffers = {
            tensor: None for tensor in tensors if tensor.ndim == 2 and tensor.numel() >= _LARGE_WEIGHT
        }
        for shape, tensor in zip(model.parameters, tensors, strict=True):
            self.register_parameter(shape.name.replace(".", "_"), tensor)

    def forward(self, x: torch.Tensor, *extra_inputs: torch.Tensor) -> torch.Tensor:
        """The outputs of the model. `extra_inputs` are the masks of the dropout layers, or the values of sparse
        features."""
        if len(self._inputs) == 3:
            x = x.view(-1, *self._inputs).permute(0, 3, 1, 2)
        return _apply(self._layers, x, iter(self._tensors), iter(extra_inputs), self.gradient_buffers)


def _apply(
    layers: Sequence[Layer],
    x: torch.Tensor,
    tensors: Iterator[torch.Tensor],
    extra_inputs: Iterator[torch.Tensor],
    buffers: GradientBuffers,
) -> torch.Tensor:
    """Apply the layers in order; each one takes its parameters from `tensors`."""
    for layer in layers:
        match layer:
            case Dense():
                weight, bias = next(tensors), next(tensors)
                x = _dense(x, weight, bias, buffers)
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
            case Tanh():
                x = torch.tanh(x)
            case Flatten():
                x = x.flatten(1)
            case Dropout(rate):
                # Masks are given only in training; without one, dropout is off.
                if (mask := next(extra_inputs, None)) is not None:
                    x = x * mask * (1 / (1 - rate))
            case SpatialTransformer():
                x = _spatial_transform(layer, x, tensors, buffers)
            case Embedding():
                x = functional.embedding(x, next(tensors)) + next(tensors)
            case TransformerBlock():
                x = _transformer_block(layer, x, tensors)
            case LayerNorm():
                x = _layer_norm(x, tensors)
            case GroupNorm(groups):
                x = functional.group_norm(x, groups, next(tensors), next(tensors), NORM_EPSILON)
            case Residual(inner):
                changed = _apply(inner, x, tensors, iter(()), buffers)
                if changed.shape != x.shape:
                    x = functional.conv2d(x, next(tensors), None, shortcut_stride(x.shape[2], changed.shape[2]))
                x = x + changed
            case SparseLinear():
                weight, bias = next(tensors), next(tensors)
                x = ((weight[x] * next(extra_inputs)).sum(1) + bias).unsqueeze(1)
    return x


def _dense(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, buffers: GradientBuffers) -> torch.Tensor:
    if x.ndim > 2:  # A sequence: the layer is applied to each token.
        return _dense(x.flatten(0, -2), weight, bias, buffers).view(*x.shape[:-1], -1)
    if weight in buffers:
        return _LargeDense.apply(x, weight, bias, buffers[weight])
    return torch.addmm(bias, x, weight)


def _transformer_block(layer: TransformerBlock, x: torch.Tensor, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    examples, tokens, width = x.shape
    qkv = _dense(_layer_norm(x, tensors), next(tensors), next(tensors), {})
    heads = qkv.view(examples, tokens, 3, layer.heads, width // layer.heads).permute(2, 0, 3, 1, 4)
    query, key, value = heads.unbind()
    attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    x = x + _dense(attended.transpose(1, 2).reshape(x.shape), next(tensors), next(tensors), {})
    hidden = functional.gelu(_dense(_layer_norm(x, tensors), next(tensors), next(tensors), {}))
    return x + _dense(hidden, next(tensors), next(tensors), {})


def _layer_norm(x: torch.Tensor, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], next(tensors), next(tensors), NORM_EPSILON)


class _LargeDense(torch.autograd.Function):
    """A dense layer that writes the gradient of its weight directly into a given buffer.

    Autograd would compute this gradient in newly allocated memory and then copy it. For a large matrix, that costs more
    than the matrix product itself. `backward` returns None as the gradient of the weight; autograd still calls the
    hooks on the node that accumulates this gradient.
    """

    @staticmethod
    def forward(
        context: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, buffer: torch.Tensor | None
    ) -> torch.Tensor:
        context.save_for_backward(x)
        context.weight, context.buffer = weight, buffer
        return torch.addmm(bias, x, weight)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (x,), weight = context.saved_tensors, context.weight
        buffer = weight.grad if context.buffer is None else context.buffer
        x_gradient, bias_gradient = gradient @ weight.t(), gradient.sum(0)
        if buffer is None:
            return x_gradient, x.t() @ gradient, bias_gradient, None
        torch.mm(x.t(), gradient, out=buffer)
        return x_gradient, None, bias_gradient, None


def _spatial_transform(
    layer: SpatialTransformer, image: torch.Tensor, tensors: Iterator[torch.Tensor], buffers: GradientBuffers
) -> torch.Tensor:
    """Sample the image at the points that the layer's localisation network chooses, by an affine map per example."""
    features = _apply(layer.localisation, image, tensors, iter(()), buffers)
    weight, bias = next(tensors), next(tensors)
    affine = _dense(features, weight, bias, buffers).view(-1, 2, 3)
    grid = functional.affine_grid(affine, [*image.shape[:2], layer.size, layer.size], align_corners=True)
    return functional.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def mean_loss(loss: Loss, outputs: torch.Tensor, inputs: Tensors, target: torch.Tensor) -> torch.Tensor:
    """The loss of a batch, as the mean over its examples."""
    match loss:
        case "softmax":
            if outputs.ndim > 2:  # Sequences: a class for each token. Tokens with a label below 0 do not count.
                target = target.flatten()
                outputs, target = outputs.flatten(0, -2), torch.where(target < 0, _NO_LABEL, target)
            return functional.cross_entropy(outputs, target)
        case "logistic":
            return functional.binary_cross_entropy_with_logits(outputs[:, 0], target.to(outputs.dtype))
        case "reconstruction":
            return functional.mse_loss(outputs, inputs[0], reduction="sum") / (2 * len(outputs))
        case "squared":
            return functional.mse_loss(outputs, target.view_as(outputs), reduction="sum") / (2 * len(outputs))
