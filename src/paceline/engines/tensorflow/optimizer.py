"""The workload's optimizer, as the v1 runtime has it."""

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def fed(variable: Any, value: Any) -> tuple[Any, dict[Any, Any]]:
    """What to run, and with what, to give a variable a value: its own initializer does, without more of a graph."""
    return variable.initializer, {variable.initializer.inputs[1]: value}


def optimizer(lr: float, momentum: float) -> Any:
    if momentum:
        return tf1.train.MomentumOptimizer(lr, momentum)
    return tf1.train.GradientDescentOptimizer(lr)


def slots(descent: Any, variables: list[Any]) -> list[Any]:
    """Where an optimizer keeps the velocity of each variable; none without momentum."""
    names = descent.get_slot_names()
    return [descent.get_slot(variable, names[0]) for variable in variables] if names else []
