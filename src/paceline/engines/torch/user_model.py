"""Builds the torch module of a model: from framework-neutral layers, or with the function of a user's workload."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import msgspec
import torch

from paceline.data.batches import Array
from paceline.engines.torch.layers import Layers, mean_loss
from paceline.errors import WorkloadError
from paceline.train.context import TaskContext
from paceline.train.user_model import UserModel
from paceline.workloads.model import AnyModel, Model
from paceline.workloads.outputs import main_output, map_tensors
from paceline.workloads.parameters import ParameterShape, Vector, views

TrainableParameters = list[torch.nn.Parameter]


def build_module(model: AnyModel, vector: Vector) -> tuple[torch.nn.Module, TrainableParameters]:
    """A module and its trainable parameters, which are views of the vector: they share its memory."""
    tensor_views = [torch.from_numpy(view) for view in views(vector, model.parameters).values()]
    if isinstance(model, ModuleModel):
        return model.build(tensor_views)
    assert isinstance(model, Model)
    tensors = [torch.nn.Parameter(view) for view in tensor_views]
    return Layers(model, tensors), tensors


def with_user_model(context: TaskContext) -> TaskContext:
    """The context, with the model from the user's `torch` function if the workload has one and no `model`."""
    make_module = context.workload.torch
    if make_module is None or context.workload.model:
        return context
    return msgspec.structs.replace(context, model=ModuleModel(make_module, context))


class ModuleModel(UserModel):
    """A user's nn.Module. torch draws its initial values from the seed of the run, so all tasks get the same values."""

    def __init__(self, make_module: Callable[[], torch.nn.Module], context: TaskContext) -> None:
        super().__init__(context)
        self._make_module = make_module

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        module = self._new_module(0)
        named = [(name, value) for name, value in module.named_parameters() if value.requires_grad]
        shapes = tuple(ParameterShape(name, tuple(value.shape)) for name, value in named)
        if not shapes:
            raise WorkloadError(
                "the module that `torch` returns cannot be trained: it needs at least one parameter with requires_grad"
            )
        return shapes

    def first(self, seed: int, part: slice | None = None) -> Vector:
        values = [value.detach().reshape(-1).float() for value in _trainable_parameters(self._new_module(seed))]
        vector: Vector = torch.cat(values).numpy()
        return vector if part is None else vector[part].copy()

    def first_outputs(self, scale: float = 1.0) -> Array:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            module = self._with_names(self._new_module(self._context.job.seed)).eval()
            outputs = module(*(torch.from_numpy(array) for array in self.scaled_inputs(scale)))
            first: Array = main_output(outputs).numpy()
        return first

    def user_loss(self, module: torch.nn.Module, inputs: list[torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        """The loss of a batch, which the user's functions compute if there are any."""
        if self.train_step:
            return cast(torch.Tensor, self.checked_loss(self.train_step(module, *inputs, target)))
        outputs = module(*inputs)
        if not isinstance(self.loss, str):
            return cast(torch.Tensor, self.checked_loss(self.loss(outputs, target)))
        return mean_loss(self.loss, main_output(outputs), inputs, target)

    def batch_loss(self, outputs: Any, target: Array) -> float:
        assert not isinstance(self.loss, str)
        with torch.no_grad():
            loss = self.loss(map_tensors(torch.from_numpy, outputs), torch.from_numpy(target))
        return float(self.checked_loss(loss))

    def build(self, tensor_views: list[torch.Tensor]) -> tuple[torch.nn.Module, TrainableParameters]:
        """A new module whose trainable parameters use the memory of these tensors, and these parameters."""
        module = self._new_module(self._context.job.seed)
        tensors = _trainable_parameters(module)
        for tensor, view in zip(tensors, tensor_views, strict=True):
            tensor.data = view
        return self._with_names(module), tensors

    def _with_names(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module, which takes its inputs in the order of a batch."""
        return _NamedInputs(module, self.input_names) if self.input_names else module

    def _new_module(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        module = self._make_module()
        if not isinstance(module, torch.nn.Module):
            raise WorkloadError(f"`torch` returned a {type(module).__name__}: it must return an nn.Module")
        return module


class _NamedInputs(torch.nn.Module):
    """Passes its inputs to a module by their names."""

    def __init__(self, module: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self._module, self._names = module, names

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._module(**dict(zip(self._names, inputs, strict=True)))


def _trainable_parameters(module: torch.nn.Module) -> TrainableParameters:
    """The parameters of a module without those that the user has frozen."""
    return [tensor for tensor in module.parameters() if tensor.requires_grad]
