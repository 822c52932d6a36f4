"""A model in PyTorch, its parameters and gradients each one flat vector that NumPy sees too."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from paceline.data.batches import Array, Batch
from paceline.engines.torch.layers import Layers, mean_loss
from paceline.engines.torch.user_model import module_over
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import Job
from paceline.workloads.model import AnyModel
from paceline.workloads.parameters import Parameters, Vector, views


class Network:
    def __init__(self, model: AnyModel, vector: Vector) -> None:
        self._model = model
        self.vector = vector
        self.module, self.tensors = module_over(model, vector)
        self._backward = _backward()
        self._zero: Callable[[], object] = self.forget
        self._places = self.module.places if isinstance(self.module, Layers) else {}

    def keep_gradients_in(self, gradient: Vector) -> None:
        """From now on backward() adds into this vector."""
        for tensor, window in zip(self.tensors, self.windows(gradient), strict=True):
            tensor.grad = window
        self._zero = torch.from_numpy(gradient).zero_

    def place_gradients(self, windows: Sequence[torch.Tensor]) -> list[bool]:
        """Let backward write into these, as far as it can be told where to; which of them it will."""
        for tensor, window in zip(self.tensors, windows, strict=True):
            if tensor in self._places:
                self._places[tensor] = window
        return [tensor in self._places for tensor in self.tensors]

    def windows(self, vector: Vector) -> list[torch.Tensor]:
        """A vector like that of the parameters, seen as tensors like theirs."""
        return [torch.from_numpy(view) for view in self._views(vector)]

    def loss(self, batch: Batch, module: torch.nn.Module | None = None) -> torch.Tensor:
        inputs = [torch.from_numpy(array) for array in batch.inputs]
        outputs = (module or self.module)(*inputs)
        return mean_loss(self._model.loss, outputs, inputs, torch.from_numpy(batch.target))

    def differentiate(self, batch: Batch) -> float:
        """Loss of a batch; the gradients are then where they are kept."""
        self._zero()
        loss = self.loss(batch)
        self._backward(loss)
        return loss.item()

    def predict(self, *inputs: Array) -> Array:
        self.module.eval()
        with torch.inference_mode():
            found: Array = self.module(*(torch.from_numpy(array) for array in inputs)).numpy()
        self.module.train()
        return found

    def snapshot(self) -> Parameters:
        return self.named(self.vector.copy())

    def named(self, vector: Vector) -> Parameters:
        """A vector like that of the parameters, by their names."""
        return views(vector, self._model.parameters)

    def forget(self) -> None:
        """The gradients of the step before; those that backward writes over stay."""
        for tensor in self.tensors:
            if tensor not in self._places:
                tensor.grad = None

    def _views(self, vector: Vector) -> list[Vector]:
        return list(self.named(vector).values())


class TorchSgd:
    """Gradient descent with momentum, by whatever gradients a network's parameters have."""

    def __init__(self, network: Network, job: Job, beginning: InitialState) -> None:
        self._network, self._tensors, self._lr = network, list(network.tensors), job.lr
        # Without momentum the stock optimizer's own bookkeeping would be a tenth of a small model's step.
        self._stock = (
            torch.optim.SGD(self._tensors, lr=job.lr, momentum=job.momentum, fused=True) if job.momentum else None
        )
        velocity = beginning.velocity()
        if self._stock and velocity is not None:
            for tensor, window in zip(self._tensors, network.windows(velocity), strict=True):
                self._stock.state[tensor]["momentum_buffer"] = window.clone()

    def state(self, update: int) -> TrainingState:
        velocity: Parameters = {}
        if self._stock:
            flat = np.zeros_like(self._network.vector)
            for tensor, window in zip(self._tensors, self._network.windows(flat), strict=True):
                # Before its first step a parameter has none.
                if (buffer := self._stock.state[tensor].get("momentum_buffer")) is not None:
                    window.copy_(buffer)
            velocity = self._network.named(flat)
        return TrainingState(update, self._network.snapshot(), velocity)

    def step(self) -> None:
        if self._stock:
            self._stock.step()
            return
        # A parameter that a user's module did not use has no gradient.
        used = [tensor for tensor in self._tensors if tensor.grad is not None]
        with torch.no_grad():
            torch._foreach_add_(used, [tensor.grad for tensor in used], alpha=-self._lr)


def _backward() -> Callable[[torch.Tensor], object]:
    """Tensor.backward without its Python half, which costs a small model a fifth of its step.

    The engine below it is not public: where it is not what it was in torch 2.13, Tensor.backward it is.
    """
    one, probe = torch.ones(()), torch.ones((), requires_grad=True)

    def backward(loss: torch.Tensor) -> object:
        return engine.run_backward((loss,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)

    try:
        engine = torch.autograd.Variable._execution_engine
        backward(probe * 2)
    except (AttributeError, TypeError, RuntimeError):
        return torch.Tensor.backward
    return backward if probe.grad is not None and probe.grad.item() == 2 else torch.Tensor.backward
