"""The workload's optimizer, as the v1 runtime has it."""

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def optimizer(lr: float, momentum: float) -> Any:
    if momentum:
        return tf1.train.MomentumOptimizer(lr, momentum)
    return tf1.train.GradientDescentOptimizer(lr)
