"""A model in PyTorch whose parameters lie in one flat vector that torch and NumPy share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from paceline.data.batches import Array, Batch
from paceline.engines.torch import threads
from paceline.engines.torch.layers import Layers, mean_loss
from paceline.engines.torch.user_model import ModuleModel, build_module
from paceline.train.context import TaskContext
from paceline.workloads.model import AnyModel
from paceline.workloads.outputs import map_tensors
from paceline.workloads.parameters import Parameters, ParameterShape, Vector, views


class Network:
    """A model over a flat vector of parameters: its loss, gradients and predictions."""

    def __init__(self, model: AnyModel, vector: Vector) -> None:
        self._model = model
        self.vector = vector
        self.module, self.tensors = build_module(model, vector)
        self._loss = model.loss if isinstance(model.loss, str) else "softmax"
        self._user_loss = model.user_loss if isinstance(model, ModuleModel) else None
        self._backward = _backward()
        self._reset_gradients: Callable[[], object] = self.clear_gradients
        self._gradient_buffers = self.module.gradient_buffers if isinstance(self.module, Layers) else {}

    def accumulate_gradients_in(self, gradient: Vector) -> None:
        """Make backward add all gradients into this vector, which `differentiate` sets to zero first."""
        for tensor, view in zip(self.tensors, self.tensor_views(gradient), strict=True):
            tensor.grad = view
        self._reset_gradients = torch.from_numpy(gradient).zero_

    def redirect_gradients(self, targets: Sequence[torch.Tensor]) -> list[bool]:
        """Make backward write the gradients into these tensors, one per parameter, where the layer supports that.

        Returns for each parameter whether backward will write its gradient into the target. The caller has to copy the
        others.
        """
        for tensor, target in zip(self.tensors, targets, strict=True):
            if tensor in self._gradient_buffers:
                self._gradient_buffers[tensor] = target
        return [tensor in self._gradient_buffers for tensor in self.tensors]

    def tensor_views(self, vector: Vector) -> list[torch.Tensor]:
        """For each parameter, its part of a vector that is laid out like `self.vector`, as a tensor of its shape."""
        return [torch.from_numpy(view) for view in self._views(vector)]

    def loss(self, batch: Batch, module: torch.nn.Module | None = None) -> torch.Tensor:
        """The mean loss of a batch, computed by `module` if it is given, such as a wrapper around `self.module`."""
        inputs, target = [torch.from_numpy(array) for array in batch.inputs], torch.from_numpy(batch.target)
        module = module or self.module
        if self._user_loss:
            return self._user_loss(module, inputs, target)
        return mean_loss(self._loss, module(*inputs), inputs, target)

    def differentiate(self, batch: Batch) -> float:
        """The loss of a batch. Its gradients are then in the `grad` of the parameters, or in the redirected targets."""
        self._reset_gradients()
        loss = self.loss(batch)
        self._backward(loss)
        return loss.item()

    def warm_up(self, context: TaskContext, batch: Batch) -> None:
        """Prepare for the first step (see threads.py). It changes neither parameters nor buffers nor the state of the
        random generator."""
        buffers = [buffer.clone() for buffer in self.module.buffers()]
        with torch.random.fork_rng(devices=[]):
            threads.warm_up(context, lambda: self.differentiate(batch))
        with torch.no_grad():
            for buffer, before in zip(self.module.buffers(), buffers, strict=True):
                buffer.copy_(before)

    def predict(self, *inputs: Array) -> Any:
        self.module.eval()
        with torch.inference_mode():
            outputs = self.module(*(torch.from_numpy(array) for array in inputs))
            predictions = outputs.numpy() if isinstance(outputs, torch.Tensor) else map_tensors(_to_array, outputs)
        self.module.train()
        return predictions

    @property
    def shapes(self) -> tuple[ParameterShape, ...]:
        """The parameters, in the order of `tensors`."""
        return self._model.parameters

    def snapshot(self) -> Parameters:
        """A copy of the values of all parameters, by name."""
        return self.named(self.vector.copy())

    def named(self, vector: Vector) -> Parameters:
        """For each parameter name, its part of a vector that is laid out like `self.vector`."""
        return views(vector, self._model.parameters)

    def clear_gradients(self) -> None:
        """Drop the gradients of the last step, except those that backward overwrites anyway."""
        for tensor in self.tensors:
            if tensor not in self._gradient_buffers:
                tensor.grad = None

    def _views(self, vector: Vector) -> list[Vector]:
        return list(self.named(vector).values())


def _to_array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.numpy()
    return array


def _backward() -> Callable[[torch.Tensor], object]:
    """The function that runs the backward pass from a loss.

    It calls the autograd engine directly, because the Python part of `Tensor.backward` takes a fifth of a small model's
    step. The engine is not a public API: if it does not behave as in torch 2.13, the result is `Tensor.backward`.
    """
    loss_gradient, probe = torch.ones(()), torch.ones((), requires_grad=True)

    def backward(loss: torch.Tensor) -> object:
        return engine.run_backward(
            (loss,), (loss_gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
        )

    try:
        engine = torch.autograd.Variable._execution_engine
        backward(probe * 2)
    except (AttributeError, TypeError, RuntimeError):
        return torch.Tensor.backward
    return backward if probe.grad is not None and probe.grad.item() == 2 else torch.Tensor.backward
