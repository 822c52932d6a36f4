"""The part of a user's own model that is the same in every engine: its inputs have the shapes of the user's data."""

from functools import cached_property
from typing import Any

import numpy as np

from paceline.data.batches import Array, Batch
from paceline.errors import WorkloadError
from paceline.train.context import TaskContext
from paceline.workloads.model import Feed, Loss, LossFunction
from paceline.workloads.parameters import ParameterShape, Vector

_MAX_FLOAT_ERROR = 1e-5
"""How far the sum of probabilities may be from 1."""
_LARGE_SCALES = (1e3, -1e3)
"""Factors of the inputs with which logits are far from 0, with either sign."""


class UserModel:
    """A model that an engine builds with the user's function."""

    mask_sizes: tuple[int, ...] = ()
    dropout_rates: tuple[float, ...] = ()
    by_rows = None

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self.loss: Loss | LossFunction = context.workload.loss
        self.train_step = context.workload.train_step
        """The user's own computation of the loss, if there is one."""

    @property
    def parameters(self) -> tuple[ParameterShape, ...]:
        raise NotImplementedError

    def first(self, seed: int, part: slice | None = None) -> Vector:
        raise NotImplementedError

    def first_outputs(self, scale: float = 1.0) -> Array:
        """The outputs of the model with its initial values for the batch `example`, whose inputs are multiplied."""
        raise NotImplementedError

    def batch_loss(self, outputs: Any, target: Array) -> float:
        """The user's loss of the outputs of a batch, both given as arrays."""
        raise NotImplementedError

    def checked_loss(self, loss: Any) -> Any:
        """What the user's `loss` or `train_step` returned; WorkloadError unless it is one number."""
        shape = getattr(loss, "shape", None)
        if shape is None or len(shape):
            what = "train_step" if self.train_step else "loss"
            found = f"a tensor of shape {list(shape)}" if shape is not None else f"a {type(loss).__name__}"
            raise WorkloadError(f"`{what}` returned {found}: it must return one number as a tensor, such as the mean")
        return loss

    def check_outputs(self) -> None:
        """WorkloadError if the outputs are probabilities although the loss expects logits."""
        function = None
        if self.train_step or not isinstance(self.loss, str):
            return
        if self.loss == "softmax" and _sum_to_one(self.first_outputs()):
            function = "softmax"
        elif self.loss == "logistic" and self._outputs_stay_between_0_and_1():
            function = "sigmoid"
        if function:
            raise WorkloadError(
                f"the outputs of the model are probabilities, but the loss '{self.loss}' applies {function} itself and "
                f"needs logits: remove the {function} at the end of the model"
            )

    def _outputs_stay_between_0_and_1(self) -> bool:
        """Whether no input leads to outputs that a sigmoid would not have. Logits grow with the inputs."""
        if not all(array.dtype.kind == "f" for array in self.example.inputs):
            return False
        # With initial weights of 0, logits are exactly 0 for all inputs, but the outputs of a sigmoid are not.
        return bool((self.first_outputs() > 0).all()) and all(
            bool(((outputs >= 0) & (outputs <= 1)).all()) for outputs in map(self.first_outputs, (1.0, *_LARGE_SCALES))
        )

    def scaled_inputs(self, scale: float) -> tuple[Array, ...]:
        """The inputs of the batch `example`; those that are not whole numbers are multiplied by `scale`."""
        return tuple(
            (array * scale).astype(array.dtype) if array.dtype.kind == "f" else array for array in self.example.inputs
        )

    @cached_property
    def size(self) -> int:
        return sum(parameter.size for parameter in self.parameters)

    @cached_property
    def data_feeds(self) -> tuple[Feed, ...]:
        return tuple(_feed(array) for array in self.example.inputs)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        return self.data_feeds

    @cached_property
    def target(self) -> Feed:
        return _feed(self.example.target)

    @cached_property
    def example(self) -> Batch:
        """The first batch of the task, for its shapes and to try the model and the user's functions."""
        return self._context.data.stream(self._context.job.share).at(0)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The names by which the model gets its inputs; empty if it gets them in order."""
        names = getattr(self._context.data, "input_names", None)
        return tuple(names(self._context.job.share)) if names else ()

    def blank(self, batch: int) -> Batch:
        """The first batch of the task: the user's functions may be wrong for other values, such as zeros."""
        return self.example


def _sum_to_one(outputs: Array) -> bool:
    """Whether no output is negative and the outputs of each example sum to 1."""
    return outputs.ndim >= 2 and bool((outputs >= 0).all() and np.allclose(outputs.sum(-1), 1, atol=_MAX_FLOAT_ERROR))


def _feed(array: Array) -> Feed:
    return Feed(array.shape[1:], str(array.dtype))
