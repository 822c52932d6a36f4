"""A model as a module over one vector of values: of neutral layers, or a user's own."""

from collections.abc import Callable
from functools import cached_property

import msgspec
import torch

from paceline.engines.torch.layers import Layers
from paceline.errors import RunError
from paceline.train.context import TaskContext
from paceline.train.user_model import UserModel
from paceline.workloads.model import AnyModel, Model
from paceline.workloads.parameters import ParameterShape, Vector, views

Tensors = list[torch.nn.Parameter]


def module_over(model: AnyModel, vector: Vector) -> tuple[torch.nn.Module, Tensors]:
    """A module whose parameters are windows into the vector."""
    windows = [torch.from_numpy(view) for view in views(vector, model.parameters).values()]
    if isinstance(model, ModuleModel):
        return model.over(windows)
    assert isinstance(model, Model)
    tensors = [torch.nn.Parameter(window) for window in windows]
    return Layers(model, tensors), tensors


def with_model(context: TaskContext) -> TaskContext:
    """The task's context, its model made by the user's function if the workload has one for this engine."""
    make = context.workload.torch
    if make is None or context.workload.model:
        return context
    return msgspec.structs.replace(context, model=ModuleModel(make, context))


class ModuleModel(UserModel):
    """A user's nn.Module. Its first values are drawn by torch from the seed, alike in every task."""

    def __init__(self, make: Callable[[], torch.nn.Module], context: TaskContext) -> None:
        super().__init__(context)
        self._make = make

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        module = self._made(0)
        named = [(name, value) for name, value in module.named_parameters() if value.requires_grad]
        shapes = tuple(ParameterShape(name, tuple(value.shape)) for name, value in named)
        if not shapes:
            raise RunError("the module that `torch` makes has nothing to train: no parameter requires a gradient")
        return shapes

    def first(self, seed: int, part: slice | None = None) -> Vector:
        values = [value.detach().reshape(-1).float() for value in _trained(self._made(seed))]
        vector: Vector = torch.cat(values).numpy()
        return vector if part is None else vector[part].copy()

    def over(self, windows: list[torch.Tensor]) -> tuple[torch.nn.Module, Tensors]:
        module = self._made(self._context.job.seed)
        tensors = _trained(module)
        for tensor, window in zip(tensors, windows, strict=True):
            tensor.data = window
        return module, tensors

    def _made(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        module = self._make()
        if not isinstance(module, torch.nn.Module):
            raise RunError(f"`torch` must make an nn.Module, it made a {type(module).__name__}")
        return module


def _trained(module: torch.nn.Module) -> Tensors:
    """Its parameters, but for those that the user has frozen."""
    return [tensor for tensor in module.parameters() if tensor.requires_grad]
