"""The optimizer of a run in PyTorch: torch.optim's, with the groups, schedule and clipping of the run."""

from typing import Any

import numpy as np
import torch

from paceline.engines.torch.network import Network
from paceline.spec.optimizer import GroupSettings, Optimizer
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.workloads.parameters import Vector

_STATE_KEYS = {
    "velocity": "momentum_buffer",
    "squares": "sum",
    "mean": "exp_avg",
    "mean_square": "exp_avg_sq",
}
"""The names that torch.optim uses for what an optimizer stores."""


class TorchOptimizer:
    """Applies the gradients in the `grad` of a network's parameters."""

    def __init__(self, network: Network, optimizer: Optimizer, initial: InitialState) -> None:
        self._network, self._tensors, self._optimizer = network, list(network.tensors), optimizer
        names = [shape.name for shape in network.shapes]
        optimizer.check_groups(names)
        # For plain sgd, torch's optimizer is not used: its overhead would be a tenth of a small model's step.
        self._torch_optimizer = None if optimizer.is_plain_sgd else _make(optimizer, names, self._tensors)
        self._updates = initial.update
        if self._torch_optimizer:
            self._restore(self._torch_optimizer, initial)

    def step(self) -> None:
        """Update the parameters once."""
        if self._optimizer.clip:
            torch.nn.utils.clip_grad_norm_(self._tensors, self._optimizer.clip)
        if self._torch_optimizer:
            if not self._optimizer.has_constant_rate:
                rate = self._optimizer.lr_at(self._updates)
                for group in self._torch_optimizer.param_groups:
                    group["lr"] = rate * group["lr_scale"]
            self._torch_optimizer.step()
            self._updates += 1
            return
        # A parameter that the user's module did not use in this step has no gradient.
        used = [tensor for tensor in self._tensors if tensor.grad is not None]
        with torch.no_grad():
            torch._foreach_add_(used, [tensor.grad for tensor in used], alpha=-self._optimizer.lr)

    def state(self, update: int) -> TrainingState:
        """A copy of the parameters and of the optimizer's state, for a checkpoint of this update."""
        stored = {name: self._network.named(vector) for name, vector in self.state_vectors().items()}
        return TrainingState(update, self._network.snapshot(), stored)

    def state_vectors(self) -> dict[str, Vector]:
        """By name, a copy of what the optimizer stores, each laid out like the vector of the parameters."""
        return {name: self._stored(name) for name in self._optimizer.state_names}

    def _stored(self, name: str) -> Vector:
        flat = np.zeros_like(self._network.vector)
        for tensor, view in zip(self._tensors, self._network.tensor_views(flat), strict=True):
            # torch creates the state of a parameter in its first step.
            if self._torch_optimizer and _STATE_KEYS[name] in self._torch_optimizer.state[tensor]:
                view.copy_(self._torch_optimizer.state[tensor][_STATE_KEYS[name]])
        return flat

    def _restore(self, torch_optimizer: Any, initial: InitialState) -> None:
        stored = initial.optimizer_state()
        for name in self._optimizer.state_names:
            if name not in stored:
                continue
            for tensor, view in zip(self._tensors, self._network.tensor_views(stored[name]), strict=True):
                torch_optimizer.state[tensor][_STATE_KEYS[name]] = view.clone()
        if stored and (self._optimizer.corrects_bias or self._optimizer.kind == "adagrad"):
            for tensor in self._tensors:
                torch_optimizer.state[tensor]["step"] = torch.tensor(float(initial.update))


def _make(optimizer: Optimizer, names: list[str], tensors: list[torch.nn.Parameter]) -> Any:
    groups: dict[GroupSettings, list[torch.nn.Parameter]] = {}
    for name, tensor in zip(names, tensors, strict=True):
        groups.setdefault(optimizer.settings_for(name), []).append(tensor)
    parameters = [
        {
            "params": members,
            "weight_decay": settings.weight_decay,
            "lr": optimizer.lr * settings.lr_scale,
            "lr_scale": settings.lr_scale,
        }
        for settings, members in groups.items()
    ]
    betas = (optimizer.beta1, optimizer.beta2)
    match optimizer.kind:
        case "sgd" | "momentum" | "nesterov":
            nesterov = optimizer.kind == "nesterov" and optimizer.momentum > 0
            return torch.optim.SGD(parameters, momentum=optimizer.momentum, nesterov=nesterov, fused=True)
        case "adagrad":
            return torch.optim.Adagrad(parameters, eps=optimizer.epsilon, fused=True)
        case "adam":
            return torch.optim.Adam(parameters, betas=betas, eps=optimizer.epsilon, fused=True)
        case "adamw":
            return torch.optim.AdamW(parameters, betas=betas, eps=optimizer.epsilon, fused=True)
