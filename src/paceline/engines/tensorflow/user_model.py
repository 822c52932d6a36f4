"""A user's own model in TensorFlow, as a function of its parameters' values: a Keras model or a TensorFunction."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf

from paceline.errors import RunError
from paceline.train.context import TaskContext
from paceline.train.user_model import UserModel
from paceline.workloads.functions import TensorFunction
from paceline.workloads.parameters import Parameters, ParameterShape, Vector

Function = Callable[[Sequence[Any], Sequence[Any]], Any]
"""(inputs, values of the parameters) -> outputs"""


def with_model(context: TaskContext) -> TaskContext:
    """The task's context, its model made by the user's function if the workload has one for this engine."""
    make = context.workload.tensorflow
    if make is None or context.workload.model:
        return context
    return msgspec.structs.replace(context, model=FunctionModel(make, context))


class FunctionModel(UserModel):
    def __init__(self, make: Callable[[], Any], context: TaskContext) -> None:
        super().__init__(context)
        self._make = make

    @cached_property
    def _built(self) -> tuple[Function, Parameters]:
        # Not before it is needed: joining a cluster must be the first thing the framework does.
        return self._made(self._context.job.seed)

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        return tuple(ParameterShape(name, value.shape) for name, value in self._built[1].items())

    def first(self, seed: int, part: slice | None = None) -> Vector:
        values = self._built[1] if seed == self._context.job.seed else self._made(seed)[1]
        vector = np.concatenate([value.reshape(-1) for value in values.values()])
        return vector if part is None else vector[part].copy()

    def outputs(self, inputs: Sequence[Any], values: Sequence[Any]) -> Any:
        return self._built[0](inputs, values)

    def _made(self, seed: int) -> tuple[Function, Parameters]:
        """The user's model as a function of inputs and values, and its first values by name."""
        tf.keras.utils.set_random_seed(seed)
        made = self._make()
        if isinstance(made, TensorFunction):
            first = {name: np.asarray(value, np.float32) for name, value in made.first(seed).items()}
            return lambda inputs, values: made.outputs(dict(zip(first, values, strict=True)), *inputs), first
        if isinstance(made, tf.keras.Model):
            return self._of_keras(made)
        raise RunError(f"`tensorflow` must make a Keras model or a TensorFunction, it made a {type(made).__name__}")

    def _of_keras(self, model: Any) -> tuple[Function, Parameters]:
        if not model.built:
            model(*[tf.zeros(array.shape, array.dtype) for array in self.example.inputs])
        if model.non_trainable_variables:
            names = ", ".join(variable.path for variable in model.non_trainable_variables)
            raise RunError(f"Keras layers with a state of their own are not supported: {names}")
        first = {variable.path.replace("/", "."): variable.numpy() for variable in model.trainable_variables}

        def outputs(inputs: Sequence[Any], values: Sequence[Any]) -> Any:
            found, _ = model.stateless_call(list(values), [], *inputs)
            return found

        return outputs, first
