"""SGD with or without momentum, as an optimizer of TensorFlow's v1 API, and access to its velocities."""

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def assignment(variable: Any, value: Any) -> tuple[Any, dict[Any, Any]]:
    """The op to run and the feeds to run it with, to assign a value to a variable.

    The op is the initializer of the variable, with another value fed in, so the graph needs no further op.
    """
    return variable.initializer, {variable.initializer.inputs[1]: value}


def make_optimizer(lr: float, momentum: float) -> Any:
    if momentum:
        return tf1.train.MomentumOptimizer(lr, momentum)
    return tf1.train.GradientDescentOptimizer(lr)


def velocity_slots(optimizer: Any, variables: list[Any]) -> list[Any]:
    """The variables in which an optimizer stores the velocity of each variable; empty without momentum."""
    names = optimizer.get_slot_names()
    return [optimizer.get_slot(variable, names[0]) for variable in variables] if names else []
