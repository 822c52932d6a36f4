"""Encodes a TensorFlow graph as an event file that TensorBoard can show."""

import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf


def graph_event(graph: Any) -> bytes:
    """The bytes of the event file."""
    event = tf.compat.v1.Event
    now = time.time()
    with tempfile.TemporaryDirectory(prefix="paceline-graph-") as folder:
        path = Path(folder) / "events"
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(event(wall_time=now, file_version="brain.Event:2").SerializeToString())
            definition = graph.as_graph_def(add_shapes=True).SerializeToString()
            writer.write(event(wall_time=now, graph_def=definition).SerializeToString())
        return path.read_bytes()
