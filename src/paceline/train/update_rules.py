"""The arithmetic of each optimizer on NumPy vectors of equal length, changed in place, as in torch.optim."""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from paceline.spec.optimizer import GroupSettings, Optimizer
from paceline.workloads.parameters import Vector


class Numbers(msgspec.Struct, frozen=True):
    """What an update depends on beside the vectors."""

    optimizer: Optimizer
    lr: float
    bias1: float
    """adam: what the mean of the gradients must be divided by, because it started at zero."""
    bias2_root: float
    """adam: the same for the square root of the mean of their squares."""

    @classmethod
    def of(cls, optimizer: Optimizer, update: int) -> "Numbers":
        """The numbers of the next update, after `update` updates."""
        if not optimizer.corrects_bias:
            return cls(optimizer, optimizer.lr_at(update), 1.0, 1.0)
        bias1 = 1 - optimizer.beta1 ** (update + 1)
        return cls(optimizer, optimizer.lr_at(update), bias1, math.sqrt(1 - optimizer.beta2 ** (update + 1)))


Rule = Callable[[Numbers, GroupSettings, Vector, Sequence[Vector], Vector, Vector], None]
"""(numbers, settings, values, state, gradient, scratch): changes values and state, and overwrites the last two."""


def rule_of(optimizer: Optimizer) -> Rule:
    return _RULES[optimizer.kind]


def _sgd(
    n: Numbers, group: GroupSettings, values: Vector, _: Sequence[Vector], gradient: Vector, scratch: Vector
) -> None:
    _add_decay(group, values, gradient, scratch)
    gradient *= np.float32(n.lr * group.lr_scale)
    values -= gradient


def _momentum(
    n: Numbers, group: GroupSettings, values: Vector, state: Sequence[Vector], gradient: Vector, scratch: Vector
) -> None:
    (velocity,) = state
    _add_decay(group, values, gradient, scratch)
    velocity *= np.float32(n.optimizer.momentum)
    velocity += gradient
    values -= np.multiply(velocity, np.float32(n.lr * group.lr_scale), out=scratch)


def _nesterov(
    n: Numbers, group: GroupSettings, values: Vector, state: Sequence[Vector], gradient: Vector, scratch: Vector
) -> None:
    (velocity,) = state
    _add_decay(group, values, gradient, scratch)
    velocity *= np.float32(n.optimizer.momentum)
    velocity += gradient
    gradient += np.multiply(velocity, np.float32(n.optimizer.momentum), out=scratch)
    gradient *= np.float32(n.lr * group.lr_scale)
    values -= gradient


def _adagrad(
    n: Numbers, group: GroupSettings, values: Vector, state: Sequence[Vector], gradient: Vector, scratch: Vector
) -> None:
    (squares,) = state
    _add_decay(group, values, gradient, scratch)
    squares += np.multiply(gradient, gradient, out=scratch)
    np.sqrt(squares, out=scratch)
    scratch += np.float32(n.optimizer.epsilon)
    gradient /= scratch
    gradient *= np.float32(n.lr * group.lr_scale)
    values -= gradient


def _adam(
    n: Numbers, group: GroupSettings, values: Vector, state: Sequence[Vector], gradient: Vector, scratch: Vector
) -> None:
    mean, mean_square = state
    beta1, beta2 = n.optimizer.beta1, n.optimizer.beta2
    if not n.optimizer.decays_apart:
        _add_decay(group, values, gradient, scratch)
    elif group.weight_decay:
        values *= np.float32(1 - n.lr * group.lr_scale * group.weight_decay)
    mean *= np.float32(beta1)
    mean += np.multiply(gradient, np.float32(1 - beta1), out=scratch)
    gradient *= gradient
    gradient *= np.float32(1 - beta2)
    mean_square *= np.float32(beta2)
    mean_square += gradient
    np.sqrt(mean_square, out=scratch)
    scratch *= np.float32(1 / n.bias2_root)
    scratch += np.float32(n.optimizer.epsilon)
    np.divide(mean, scratch, out=scratch)
    scratch *= np.float32(n.lr * group.lr_scale / n.bias1)
    values -= scratch


def _add_decay(group: GroupSettings, values: Vector, gradient: Vector, scratch: Vector) -> None:
    if group.weight_decay:
        gradient += np.multiply(values, np.float32(group.weight_decay), out=scratch)


_RULES: Mapping[str, Rule] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "nesterov": _nesterov,
    "adagrad": _adagrad,
    "adam": _adam,
    "adamw": _adam,
}
