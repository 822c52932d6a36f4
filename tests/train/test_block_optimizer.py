"""The NumPy optimizer beside torch.optim and Keras, step by step with the same gradients."""

import os
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.spec.optimizer import Optimizer
from paceline.train.block_optimizer import BlockOptimizer, clip_vector, sections_of
from paceline.workloads.parameters import ParameterShape
from support.optimizers import TEXTS, optimizer

SHAPES = (ParameterShape("0.weight", (30, 4)), ParameterShape("0.bias", (4,)), ParameterShape("1.weight", (4, 3)))
SIZE = sum(shape.size for shape in SHAPES)
WHOLE = slice(0, SIZE)
STEPS = 12


def gradients(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((STEPS, SIZE)).astype(np.float32)


def first_values() -> np.ndarray:
    return np.random.default_rng(9).standard_normal(SIZE).astype(np.float32)


def updated(rule: Optimizer, steps: np.ndarray) -> np.ndarray:
    values = first_values()
    block = BlockOptimizer(values, rule, sections=sections_of(rule, SHAPES))
    for number, gradient in enumerate(steps):
        copy = gradient.copy()
        if rule.clip:
            clip_vector(copy, rule.clip)
        block.step(WHOLE, [copy], number)
    return values


def updated_by_torch(rule: Optimizer, steps: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    flat, parameters = torch.from_numpy(first_values()), []
    start = 0
    for shape in SHAPES:
        parameters.append(torch.nn.Parameter(flat[start : start + shape.size].clone()))
        start += shape.size
    groups = []
    for shape, parameter in zip(SHAPES, parameters, strict=True):
        settings = rule.settings_for(shape.name)
        groups.append({"params": [parameter], "lr": rule.lr * settings.lr_scale, "weight_decay": settings.weight_decay})
    by_torch = _torch_optimizer(torch, rule, groups)
    scheduler = torch.optim.lr_scheduler.LambdaLR(by_torch, rule.schedule.at)
    for gradient in steps:
        for parameter, part in zip(parameters, torch.from_numpy(gradient).split([s.size for s in SHAPES]), strict=True):
            parameter.grad = part.clone()
        if rule.clip:
            torch.nn.utils.clip_grad_norm_(parameters, rule.clip)
        by_torch.step()
        scheduler.step()
    result: np.ndarray = torch.cat([parameter.detach() for parameter in parameters]).numpy()
    return result


def _torch_optimizer(torch: Any, rule: Optimizer, groups: list[dict[str, Any]]) -> Any:
    betas = (rule.beta1, rule.beta2)
    match rule.kind:
        case "sgd" | "momentum" | "nesterov":
            return torch.optim.SGD(groups, lr=rule.lr, momentum=rule.momentum, nesterov=rule.kind == "nesterov")
        case "adagrad":
            return torch.optim.Adagrad(groups, lr=rule.lr, eps=rule.epsilon)
        case "adam":
            return torch.optim.Adam(groups, lr=rule.lr, betas=betas, eps=rule.epsilon)
        case "adamw":
            return torch.optim.AdamW(groups, lr=rule.lr, betas=betas, eps=rule.epsilon)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("schedule", ["constant", "cosine:warmup=3:updates=10:floor=0.1", "step:every=4:factor=0.5"])
def test_updates_are_those_of_torch(text: str, schedule: str) -> None:
    rule = optimizer(text, schedule=schedule)
    np.testing.assert_allclose(updated(rule, gradients()), updated_by_torch(rule, gradients()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", ["sgd", "momentum", "adamw:weight_decay=0.1"])
def test_groups_and_clipping_are_those_of_torch(text: str) -> None:
    groups = "*bias:weight_decay=0:lr_scale=2 1.*:lr_scale=0.1"
    rule = optimizer(text, clip=1.5, param_groups=groups)
    np.testing.assert_allclose(updated(rule, gradients()), updated_by_torch(rule, gradients()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "text", ["sgd", "momentum", "nesterov", "adagrad:epsilon=0", "adam:epsilon=0", "adamw:epsilon=0"]
)
def test_updates_are_those_of_keras(text: str) -> None:
    """With epsilon 0, because Keras adds it at another place of the formula than torch."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras = pytest.importorskip("keras")
    rule = optimizer(text)
    made = {
        "sgd": lambda: keras.optimizers.SGD(rule.lr),
        "momentum": lambda: keras.optimizers.SGD(rule.lr, momentum=rule.momentum),
        "nesterov": lambda: keras.optimizers.SGD(rule.lr, momentum=rule.momentum, nesterov=True),
        "adagrad": lambda: keras.optimizers.Adagrad(rule.lr, initial_accumulator_value=0.0, epsilon=0.0),
        "adam": lambda: keras.optimizers.Adam(rule.lr, epsilon=0.0),
        "adamw": lambda: keras.optimizers.AdamW(rule.lr, weight_decay=rule.weight_decay, epsilon=0.0),
    }
    variable, by_keras = keras.Variable(first_values()), made[rule.kind]()
    for gradient in gradients():
        by_keras.apply([gradient], [variable])
    np.testing.assert_allclose(updated(rule, gradients()), variable.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", TEXTS)
@given(st.integers(0, SIZE), st.integers(1, STEPS - 1))
def test_parts_and_a_restart_from_the_state_change_nothing(text: str, cut: int, restart: int) -> None:
    """A server applies its part of the vector, and another one continues from its state."""
    rule = optimizer(text, schedule="linear:updates=20", param_groups="*bias:lr_scale=3")
    values = first_values()
    for part in (slice(0, cut), slice(cut, SIZE)):
        sections, shard = sections_of(rule, SHAPES, part), values[part]
        if not shard.size:
            continue
        first = BlockOptimizer(shard, rule, sections=sections)
        for number, gradient in enumerate(gradients()):
            if number == restart:
                stored = {name: vector.copy() for name, vector in first.state.items()}
                first = BlockOptimizer(shard, rule, sections=sections, state=stored)
            first.step(slice(0, shard.size), [gradient[part]], number)
    np.testing.assert_allclose(values, updated(rule, gradients()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", ["sgd", "adagrad", "adam"])
@given(st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=20), st.booleans())
def test_rows_change_as_in_a_dense_update_and_others_stay(text: str, indices: list[int], clipped: bool) -> None:
    """In the first update, a dense optimizer changes only the values whose gradient is not zero."""
    rule = optimizer(text, clip=0.1 if clipped else None)
    rows, gradient = np.array(indices), np.linspace(0.5, 1.5, len(indices)).astype(np.float32)
    dense = np.zeros(SIZE, np.float32)
    np.add.at(dense, rows, gradient)
    values, expected = first_values(), first_values()
    BlockOptimizer(values, rule).step_rows([(rows, gradient), (rows, gradient)], 0)
    if rule.clip:
        clip_vector(dense, rule.clip)
    BlockOptimizer(expected, msgspec.structs.replace(rule, clip=None)).step(WHOLE, [dense], 0)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    untouched = np.setdiff1d(np.arange(SIZE), rows)
    assert np.array_equal(values[untouched], first_values()[untouched])
