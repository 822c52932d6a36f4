"""The optimizer of a run in TensorFlow: its state as variables, and the ops of an update, in graphs and functions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from paceline.spec.optimizer import GroupSettings, Optimizer
from paceline.spec.schedule import Schedule
from paceline.train.checkpoint import InitialState
from paceline.workloads.parameters import Parameters, ParameterShape, by_name, views

tf1 = tf.compat.v1
Slots = dict[str, list[Any]]
"""Name of what the optimizer stores -> a variable for each parameter."""
_CLIP_MARGIN = 1e-6
"""Added to a norm before dividing by it, as torch does."""


def assignment(variable: Any, value: Any) -> tuple[Any, dict[Any, Any]]:
    """The op to run and the feeds to run it with, to assign a value to a variable.

    The op is the initializer of the variable, with another value fed in, so the graph needs no further op.
    """
    return variable.initializer, {variable.initializer.inputs[1]: value}


def graph_slots(optimizer: Optimizer, variables: Sequence[Any]) -> Slots:
    """Variables of a v1 graph for the optimizer's state, each on the device of its parameter."""
    return {name: [_graph_slot(variable, name) for variable in variables] for name in optimizer.state_names}


def _graph_slot(variable: Any, name: str) -> Any:
    with tf.device(variable.device):
        full_name, zeros = f"{variable.op.name}/{name}", tf1.zeros_initializer()
        return tf1.get_variable(full_name, variable.shape, tf.float32, zeros, trainable=False, use_resource=True)


def slot_initializers(slots: Slots) -> list[Any]:
    return [slot.initializer for variables in slots.values() for slot in variables]


def restore_slots(
    run: Callable[..., Any], slots: Slots, shapes: Sequence[ParameterShape], initial: InitialState
) -> None:
    """Assign what a checkpoint has of the optimizer's state; `run` is that of a session."""
    for name, vector in initial.optimizer_state().items():
        for slot, value in zip(slots.get(name, ()), views(vector, shapes).values(), strict=False):
            run(*assignment(slot, value))


def named_state(shapes: Sequence[ParameterShape], values: dict[str, list[Any]]) -> dict[str, Parameters]:
    """The values of slots, by name and parameter."""
    return {name: by_name(shapes, arrays) for name, arrays in values.items()}


class Updater:
    """Builds the ops that apply gradients to variables.

    `update` is a tensor: the number of updates made before. It is read only if the optimizer depends on it.
    """

    def __init__(
        self, optimizer: Optimizer, shapes: Sequence[ParameterShape], variables: Sequence[Any], slots: Slots
    ) -> None:
        names = [shape.name for shape in shapes]
        optimizer.check_groups(names)
        self._optimizer, self._variables, self._slots = optimizer, variables, slots
        self._settings = [optimizer.settings_for(name) for name in names]

    @property
    def needs_number(self) -> bool:
        """Whether an update depends on its number."""
        return not self._optimizer.has_constant_rate or self._optimizer.corrects_bias

    def apply_all(self, gradients: Sequence[Any], update: Any) -> list[Any]:
        """The ops that apply a gradient of all parameters, clipped if the run clips."""
        if self._optimizer.clip:
            gradients = clip_gradients(gradients, self._optimizer.clip)
        return [self.apply(number, gradient, update) for number, gradient in enumerate(gradients)]

    def apply(self, number: int, gradient: Any, update: Any) -> Any:
        """The op that applies the gradient of a parameter: a tensor, or the slices of some rows."""
        variable = self._variables[number]
        if tf1.executing_eagerly_outside_functions():
            return self._apply(number, gradient, update)
        with tf.device(variable.device):
            return self._apply(number, gradient, update)

    def _apply(self, number: int, gradient: Any, update: Any) -> Any:
        variable, settings = self._variables[number], self._settings[number]
        slots = [variables[number] for variables in self._slots.values()]
        numbers = _Numbers(self._optimizer, settings, update)
        if not isinstance(gradient, tf.IndexedSlices):
            return _apply_dense(self._optimizer, numbers, variable, slots, gradient)
        if self._optimizer.kind == "sgd":
            return tf.raw_ops.ResourceScatterSub(
                resource=variable.handle, indices=gradient.indices, updates=gradient.values * numbers.lr
            )
        return _apply_rows(self._optimizer, numbers, variable, slots, add_duplicates(gradient))


def clip_gradients(gradients: Sequence[Any], clip: float) -> list[Any]:
    """The gradients, scaled down together if their norm is larger than `clip`."""
    distinct = [add_duplicates(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    scale = clip_scale(distinct, clip)
    return [
        tf.IndexedSlices(g.values * scale, g.indices) if isinstance(g, tf.IndexedSlices) else g * scale
        for g in distinct
    ]


def clip_scale(gradients: Sequence[Any], clip: float) -> Any:
    """The factor that reduces these gradients together to the norm `clip` if they have a larger one."""
    return tf.minimum(1.0, clip / (tf.linalg.global_norm(gradients) + _CLIP_MARGIN))


def add_duplicates(slices: Any) -> Any:
    """The slices with each index once, and the sum of its values."""
    rows, positions = tf.unique(tf.reshape(slices.indices, [-1]))
    values = tf.reshape(slices.values, [-1])
    return tf.IndexedSlices(tf.math.unsorted_segment_sum(values, positions, tf.size(rows)), rows)


class _Numbers:
    """What an update of one parameter depends on beside its vectors, as tensors of type float32."""

    def __init__(self, optimizer: Optimizer, settings: GroupSettings, update: Any) -> None:
        # In float64: the correction of adam is the small difference of two numbers near 1.
        rate: Any = optimizer.lr * settings.lr_scale
        if not optimizer.has_constant_rate:
            rate = rate * schedule_factor(optimizer.schedule, update)
        self.lr = tf.cast(rate, tf.float32)
        self.weight_decay = settings.weight_decay
        if optimizer.corrects_bias:
            count = tf.cast(update, tf.float64) + 1.0
            bias1, bias2 = (1.0 - tf.pow(tf.constant(beta, tf.float64), count) for beta in _betas(optimizer))
            root = tf.sqrt(bias2)
            # With these, the op computes torch's formula, which adds epsilon after the correction.
            self.corrected_lr = tf.cast(rate * root / bias1, tf.float32)
            self.corrected_epsilon = tf.cast(optimizer.epsilon * root, tf.float32)


def _betas(optimizer: Optimizer) -> tuple[float, float]:
    return optimizer.beta1, optimizer.beta2


def schedule_factor(schedule: Schedule, update: Any) -> Any:
    """`Schedule.at` as ops of TensorFlow, in float64."""
    done = tf.cast(update, tf.float64)
    if schedule.shape == "constant":
        factor: Any = tf.ones([], tf.float64)
    elif schedule.shape == "step":
        factor = tf.pow(tf.constant(schedule.factor, tf.float64), tf.floor(done / schedule.every))
    else:
        fraction = (done - schedule.warmup) / max(1, schedule.updates - schedule.warmup)
        fraction = tf.clip_by_value(fraction, tf.zeros([], tf.float64), tf.ones([], tf.float64))
        falling = (1.0 + tf.cos(math.pi * fraction)) / 2.0 if schedule.shape == "cosine" else 1.0 - fraction
        factor = schedule.floor + (1.0 - schedule.floor) * falling
    if schedule.warmup:
        factor = tf.where(done < schedule.warmup, (done + 1.0) / schedule.warmup, factor)
    return factor


def _apply_dense(optimizer: Optimizer, numbers: _Numbers, variable: Any, slots: Sequence[Any], gradient: Any) -> Any:
    """The op that applies a gradient of all values of a variable.

    All ops lock the variable: otherwise concurrent updates would overwrite each other, and a pull could read a
    half-applied update.
    """
    decay = numbers.weight_decay
    if decay and not optimizer.decays_apart:
        gradient = gradient + decay * variable.read_value()
    handle = variable.handle
    match optimizer.kind:
        case "sgd":
            return tf.raw_ops.ResourceApplyGradientDescent(
                var=handle, alpha=numbers.lr, delta=gradient, use_locking=True
            )
        case "momentum" | "nesterov":
            return tf.raw_ops.ResourceApplyMomentum(
                var=handle,
                accum=slots[0].handle,
                lr=numbers.lr,
                grad=gradient,
                momentum=tf.constant(optimizer.momentum, tf.float32),
                use_locking=True,
                use_nesterov=optimizer.kind == "nesterov",
            )
        case "adagrad":
            return tf.raw_ops.ResourceApplyAdagradV2(
                var=handle,
                accum=slots[0].handle,
                lr=numbers.lr,
                epsilon=tf.constant(optimizer.epsilon, tf.float32),
                grad=gradient,
                use_locking=True,
            )
        case "adam" | "adamw":
            decayed = []
            if decay and optimizer.decays_apart:
                decayed = [
                    tf.raw_ops.ResourceApplyGradientDescent(
                        var=handle, alpha=numbers.lr * decay, delta=variable.read_value(), use_locking=True
                    )
                ]
            with tf.control_dependencies([op for op in decayed if op is not None]):
                return _apply_adam(optimizer, numbers, handle, slots, gradient)


def _apply_adam(optimizer: Optimizer, numbers: _Numbers, handle: Any, slots: Sequence[Any], gradient: Any) -> Any:
    zero = tf.constant(0.0)
    return tf.raw_ops.ResourceApplyAdam(
        var=handle,
        m=slots[0].handle,
        v=slots[1].handle,
        beta1_power=zero,
        beta2_power=zero,
        lr=numbers.corrected_lr,
        beta1=tf.constant(optimizer.beta1, tf.float32),
        beta2=tf.constant(optimizer.beta2, tf.float32),
        epsilon=numbers.corrected_epsilon,
        grad=gradient,
        use_locking=True,
    )


def _apply_rows(optimizer: Optimizer, numbers: _Numbers, variable: Any, slots: Sequence[Any], slices: Any) -> Any:
    """The op that applies a gradient of some rows, each of which occurs once. Other rows do not change."""
    rows, gradient = slices.indices, slices.values

    def gather(source: Any) -> Any:
        return tf.raw_ops.ResourceGather(resource=source.handle, indices=rows, dtype=tf.float32)

    if optimizer.kind == "adagrad":
        new_state = [gather(slots[0]) + tf.square(gradient)]
        change = numbers.lr * gradient / (tf.sqrt(new_state[0]) + optimizer.epsilon)
    else:
        beta1, beta2 = _betas(optimizer)
        mean = beta1 * gather(slots[0]) + (1 - beta1) * gradient
        square = beta2 * gather(slots[1]) + (1 - beta2) * tf.square(gradient)
        new_state = [mean, square]
        change = numbers.corrected_lr * mean / (tf.sqrt(square) + numbers.corrected_epsilon)
    updates = [
        tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=rows, updates=value)
        for slot, value in zip(slots, new_state, strict=True)
    ]
    updates.append(tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=rows, updates=change))
    return tf.group(*updates)
