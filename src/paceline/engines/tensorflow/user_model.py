"""A model of a user's workload in TensorFlow, a Keras model or a TensorFunction, as a function of parameter values."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf

from paceline.data.batches import Array
from paceline.errors import WorkloadError
from paceline.train.context import TaskContext
from paceline.train.user_model import UserModel
from paceline.workloads.functions import TensorFunction
from paceline.workloads.outputs import main_output, map_tensors
from paceline.workloads.parameters import Parameters, ParameterShape, Vector

OutputsFunction = Callable[[Sequence[Any], Sequence[Any]], Any]
"""(inputs, values of the parameters) -> outputs of the model"""


def with_user_model(context: TaskContext) -> TaskContext:
    """The context, with the model from the user's `tensorflow` function if the workload has one and no `model`."""
    make_model = context.workload.tensorflow
    if make_model is None or context.workload.model:
        return context
    return msgspec.structs.replace(context, model=FunctionModel(make_model, context))


class FunctionModel(UserModel):
    """A user's model whose outputs are a function of its inputs and parameter values."""

    def __init__(self, make_model: Callable[[], Any], context: TaskContext) -> None:
        super().__init__(context)
        self._make_model = make_model

    @cached_property
    def _built(self) -> tuple[OutputsFunction, Parameters]:
        # Built only when it is needed: a task must join its cluster before it uses TensorFlow for anything else.
        return self._build(self._context.job.seed)

    @cached_property
    def parameters(self) -> tuple[ParameterShape, ...]:
        return tuple(ParameterShape(name, value.shape) for name, value in self._built[1].items())

    def first(self, seed: int, part: slice | None = None) -> Vector:
        values = self._built[1] if seed == self._context.job.seed else self._build(seed)[1]
        vector = np.concatenate([value.reshape(-1) for value in values.values()])
        return vector if part is None else vector[part].copy()

    def first_outputs(self, scale: float = 1.0) -> Array:
        inputs, values = map(tf.constant, self.scaled_inputs(scale)), map(tf.constant, self._built[1].values())
        outputs: Array = main_output(self.outputs(list(inputs), list(values))).numpy()
        return outputs

    def user_loss(self, inputs: Sequence[Any], target: Any, values: Sequence[Any]) -> Any:
        """The loss of a batch by the user's functions; None if there are none."""
        if self.train_step:
            return self.checked_loss(self.train_step(lambda *arrays: self.outputs(arrays, values), *inputs, target))
        if not isinstance(self.loss, str):
            return self.checked_loss(self.loss(self.outputs(inputs, values), target))
        return None

    def batch_loss(self, outputs: Any, target: Array) -> float:
        assert not isinstance(self.loss, str)
        with tf.init_scope():
            return float(self.checked_loss(self.loss(map_tensors(tf.constant, outputs), tf.constant(target))))

    def outputs(self, inputs: Sequence[Any], values: Sequence[Any]) -> Any:
        return self._built[0](inputs, values)

    def _build(self, seed: int) -> tuple[OutputsFunction, Parameters]:
        """The function that computes the outputs of the user's model, and its initial values by name."""
        tf.keras.utils.set_random_seed(seed)
        model = self._make_model()
        if isinstance(model, TensorFunction):
            initial = {name: np.asarray(value, np.float32) for name, value in model.first(seed).items()}
            names = self.input_names

            def call(inputs: Sequence[Any], values: Sequence[Any]) -> Any:
                by_name = dict(zip(initial, values, strict=True))
                return (
                    model.outputs(by_name, **dict(zip(names, inputs, strict=True)))
                    if names
                    else model.outputs(by_name, *inputs)
                )

            return call, initial
        if isinstance(model, tf.keras.Model):
            return self._build_keras(model)
        raise WorkloadError(
            f"`tensorflow` returned a {type(model).__name__}: it must return a Keras model or a TensorFunction"
        )

    def _arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """The arguments of a Keras model: a dict if batches are dicts."""
        return [dict(zip(self.input_names, inputs, strict=True))] if self.input_names else list(inputs)

    def _build_keras(self, model: Any) -> tuple[OutputsFunction, Parameters]:
        if not model.built:
            model(*self._arguments([tf.zeros(array.shape, array.dtype) for array in self.example.inputs]))
        if model.non_trainable_variables:
            kinds = sorted({type(layer).__name__ for layer in model.layers if layer.non_trainable_variables})
            raise WorkloadError(
                f"the Keras model has layers with variables that training does not change ({', '.join(kinds)}): remove "
                "Dropout, use LayerNormalization instead of BatchNormalization, and do not freeze layers"
            )
        initial = {variable.path.replace("/", "."): variable.numpy() for variable in model.trainable_variables}

        def outputs(inputs: Sequence[Any], values: Sequence[Any]) -> Any:
            predictions, _ = model.stateless_call(list(values), [], *self._arguments(inputs))
            return predictions

        return outputs, initial
