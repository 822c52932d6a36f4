"""Reads the values and the optimizer state of all servers, for a checkpoint."""

from collections.abc import Sequence

import numpy as np

from paceline.paramserver.buckets import Bucket
from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.wire import Op, Request
from paceline.train.checkpoint import TrainingState
from paceline.workloads.parameters import ParameterShape, views


def pull_state(
    connections: Sequence[ServerConnection],
    buckets: Sequence[Bucket],
    shapes: Sequence[ParameterShape],
    state_names: Sequence[str],
    update: int,
) -> TrainingState:
    """The state of all servers; its update is the latest of theirs, and `update` or later."""
    size = sum(shape.size for shape in shapes)
    values, *state = np.empty((1 + len(state_names), size), np.float32)
    for bucket in buckets:
        connection = connections[bucket.server]
        connection.send(Request(Op.STATE, bucket=bucket.number))
        reply, payload = connection.receive()
        parts = np.frombuffer(payload, np.float32).reshape(1 + len(state_names), -1)
        for vector, part in zip((values, *state), parts, strict=True):
            vector[bucket.in_model] = part
        update = max(update, reply.update)
    stored = {name: views(vector, shapes) for name, vector in zip(state_names, state, strict=True)}
    return TrainingState(update, views(values, shapes), stored)
