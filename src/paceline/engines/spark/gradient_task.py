"""What an executor does in a step: the gradient of one worker's batch, in NumPy.

The code runs in Python processes that Spark starts and keeps for later tasks; what takes long to load is kept too.
"""

import gc
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paceline.data.batches import Array, Batch
from paceline.engines.spark.environment import SCRATCH, TASK
from paceline.engines.spark.numpy_model import NumpyModel, sparse_loss_and_slopes, sparse_scores
from paceline.files.reference import cache_directory
from paceline.files.store import FileStore
from paceline.recording.recorder import clock_ns
from paceline.train.context import Job
from paceline.train.job_data import workload_and_data
from paceline.train.loop import BatchSource
from paceline.workloads.model import Model
from paceline.workloads.parameters import Vector


class Share(NamedTuple):
    """What one task reports beside its gradient."""

    worker: int
    """The number of the worker whose batch it was."""
    task: str | None
    """The task whose executor computed it; None on a cluster that is not the run's own."""
    loss: float
    pull_ns: int
    """From the start of the function until it had the parameters."""
    data_ns: int
    compute_ns: int


class Part(NamedTuple):
    """The sum of the gradients of some workers."""

    gradient: Vector
    shares: list[Share]


class RowsPart(NamedTuple):
    """The gradients of some workers, only at the rows that their batches use."""

    rows: list[tuple[Array, Vector]]
    """Indices, each once, and the gradients there; one pair for each worker."""
    next_rows: list[Array]
    """The rows that the workers need in the next step."""
    shares: list[Share]


class GradientTask:
    """Computes the gradient of one batch of a worker. Spark sends it to the executors in every step."""

    def __init__(self, job: Any, values: Any, step: int) -> None:
        """`job` and `values` are broadcast variables: the job, and the parameters."""
        self._job, self._values, self._step = job, values, step

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[Part]:
        start = clock_ns()
        read_all(rows)
        worker = worker_of(self._job.value)
        values: Vector = self._values.value
        pulled = clock_ns()
        batch = worker.batches(index).at(self._step)
        loaded = clock_ns()
        loss, gradient = worker.model.loss_and_gradient(values, batch)
        yield Part(gradient, [_share(index, loss, (start, pulled, loaded, clock_ns()))])


class RowsTask(GradientTask):
    """The same for a sparse model of which only the rows that a batch uses are sent."""

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[RowsPart]:  # type: ignore[override]
        start = clock_ns()
        read_all(rows)
        worker = worker_of(self._job.value)
        known, values = self._values.value
        pulled = clock_ns()
        batches = worker.batches(index)
        batch, upcoming = batches.batch_and_next(self._step)
        loaded = clock_ns()
        loss, gradient = rows_gradient(known, values, batch)
        shares = [_share(index, loss, (start, pulled, loaded, clock_ns()))]
        yield RowsPart([gradient], [np.unique(upcoming.inputs[0])], shares)


class FirstRows:
    """Returns the rows that a worker's batch of one step uses."""

    def __init__(self, job: Any, step: int) -> None:
        self._job, self._step = job, step

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[Array]:
        read_all(rows)
        yield np.unique(worker_of(self._job.value).batches(index).at(self._step).inputs[0])


class EmptyTask:
    """Does nothing but read its input and a small broadcast variable: what it costs is what every task costs."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[None]:
        read_all(rows)
        yield self._values.value


def read_all(rows: Iterable[int]) -> None:
    """Read what Spark sends to a task. A Python process that has not read everything ends after the task, and the next
    task starts a new one, which loads all modules and data again."""
    for _ in rows:
        pass


def rows_gradient(known: Array, values: Vector, batch: Batch) -> tuple[float, tuple[Array, Vector]]:
    """The loss of a sparse model, and its gradient at the rows that the batch uses.

    `known` are the indices of the rows in `values`, in ascending order; the last one is the bias.
    """
    indices, features = batch.inputs[:2]
    positions = np.searchsorted(known, indices)
    scores = sparse_scores(values, values[-1], positions, features)
    loss, slopes = sparse_loss_and_slopes(scores, batch)
    gradient = np.zeros(len(known), np.float32)
    np.add.at(gradient, positions.reshape(-1), (slopes * features).reshape(-1))
    gradient[-1] = slopes.sum()
    used = np.append(np.unique(positions), len(known) - 1)
    return loss, (known[used], gradient[used])


def add_parts(one: Part | None, other: Part | None) -> Part | None:
    """The sum of two parts; None is nothing."""
    if one is None or other is None:
        return one or other
    # Not in place: Spark may give the same part to another attempt.
    return Part(one.gradient + other.gradient, one.shares + other.shares)


def add_rows_parts(one: RowsPart | None, other: RowsPart | None) -> RowsPart | None:
    if one is None or other is None:
        return one or other
    return RowsPart(one.rows + other.rows, one.next_rows + other.next_rows, one.shares + other.shares)


class ExecutorState:
    """What a Python process of an executor keeps between tasks."""

    def __init__(self, job: Job) -> None:
        # Executors of a cluster that is not the run's own have no scratch directory: they find the data in their cache.
        files = FileStore(cache_directory(), Path(os.environ.get(SCRATCH, os.devnull)))
        self._job = job
        workload, self._data = workload_and_data(job, files)
        assert workload.model
        self._model: Model = workload.model.changed(init=job.init, activation=job.activation)
        self.model = NumpyModel(self._model)
        self._batches: dict[int, BatchSource] = {}
        examples = job.examples or workload.train_examples
        self.steps_per_epoch = examples // (job.batch * job.workers)
        self.is_sparse = self._model.sparse is not None

    def batches(self, index: int) -> BatchSource:
        """The batches of a worker. Any executor may compute any worker's gradient."""
        if index not in self._batches:
            job = msgspec.structs.replace(self._job, index=index)
            self._batches[index] = BatchSource(job, self._model, self._data)
        return self._batches[index]


_workers: dict[str, ExecutorState] = {}


def worker_of(job: Job) -> ExecutorState:
    """What this process keeps for the run; made at its first task."""
    if job.run not in _workers:
        _workers[job.run] = ExecutorState(job)
        # Spark collects garbage after every task. What is loaded now stays, and need not be looked at again.
        gc.freeze()
    return _workers[job.run]


def _share(index: int, loss: float, times: tuple[int, int, int, int]) -> Share:
    start, pulled, loaded, end = times
    return Share(index, os.environ.get(TASK), loss, pulled - start, loaded - pulled, end - loaded)
