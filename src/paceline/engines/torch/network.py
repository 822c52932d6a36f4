"""The neutral model in PyTorch, its parameters and gradients each one flat vector that NumPy sees too."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from paceline.train.batches import Images, Labels
from paceline.train.flat import flatten, views
from paceline.workloads.model import Dense, Model, Parameters, Relu


class Network(torch.nn.Module):
    def __init__(self, model: Model, initial: Parameters) -> None:
        super().__init__()
        self._layers = model.layers
        self._shapes = model.parameters()
        self.vector = flatten(initial)
        self.gradient = np.zeros_like(self.vector)
        self._gradient = torch.from_numpy(self.gradient)
        self._backward = _backward()
        self._tensors = []
        for name, value in views(self.vector, self._shapes).items():
            tensor = torch.nn.Parameter(torch.from_numpy(value))
            self.register_parameter(name.replace(".", "_"), tensor)
            self._tensors.append(tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensors = iter(self._tensors)
        for layer in self._layers:
            match layer:
                case Dense():
                    weight, bias = next(tensors), next(tensors)
                    x = torch.addmm(bias, x, weight)
                case Relu():
                    x = functional.relu(x)
        return x

    def keep_gradients_flat(self) -> None:
        """From now on backward() adds into `gradient`."""
        for tensor, window in zip(self._tensors, views(self.gradient, self._shapes).values(), strict=True):
            tensor.grad = torch.from_numpy(window)

    def differentiate(self, x: Images, y: Labels) -> float:
        """Loss of a batch; its gradient is then in `gradient`."""
        self._gradient.zero_()
        loss = functional.cross_entropy(self(torch.from_numpy(x)), torch.from_numpy(y))
        self._backward(loss)
        return loss.item()

    def descend(self, lr: float) -> None:
        """One step of gradient descent by whatever gradients the parameters now have."""
        with torch.no_grad():
            torch._foreach_add_(self._tensors, [tensor.grad for tensor in self._tensors], alpha=-lr)

    def predict(self, x: Images) -> NDArray[np.float32]:
        with torch.inference_mode():
            return self(torch.from_numpy(x)).numpy()

    def snapshot(self) -> Parameters:
        return views(self.vector.copy(), self._shapes)

    @classmethod
    def ready(cls, model: Model, seed: int, batch: int) -> "Network":
        """A network that has computed once, so that lazy set-up is over before the clock starts."""
        network = cls(model, model.initial(seed))
        network.keep_gradients_flat()
        network.differentiate(np.zeros((batch, model.inputs), np.float32), np.zeros(batch, np.int64))
        return network


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
