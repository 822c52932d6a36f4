"""Histograms of the parameters for TensorBoard, made in the task: only they cross the network, not the parameters."""

import io
import time

import numpy as np

from paceline.train.context import Rendezvous
from paceline.workloads.parameters import Parameters

BINS = 30
"""As many as TensorBoard shows."""


def attach_histograms(rendezvous: Rendezvous, parameters: Parameters, update: int) -> None:
    """Store an event file of the task that holds a histogram of each parameter as of `update`."""
    rendezvous.attach("tensorboard", f"events.out.tfevents.histograms.{update:09d}", encoded(parameters, update))


def encoded(parameters: Parameters, update: int) -> bytes:
    """The content of the event file."""
    # Imported here because protobuf is slow to import and few runs need it.
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    values = [
        summary_pb2.Summary.Value(tag=f"parameters/{name}", histo=_histogram(np.asarray(value, np.float64).ravel()))
        for name, value in parameters.items()
        if np.isfinite(value).all()
    ]
    file, now = io.BytesIO(), time.time()
    records = RecordWriter(file)
    records.write(event_pb2.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    summary = summary_pb2.Summary(value=values)
    records.write(event_pb2.Event(wall_time=now, step=update, summary=summary).SerializeToString())
    return file.getvalue()


def _histogram(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> object:
    from tensorboard.compat.proto import summary_pb2

    counts, edges = np.histogram(values, BINS)
    return summary_pb2.HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=np.square(values).sum(),
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )
