"""MLlib's logistic regression with L-BFGS on all training examples.

MLlib trains in one call and reports nothing before it returns. If evaluations are due, it is called for that many
iterations at a time, each call starting from the model of the one before; the memory of L-BFGS begins anew then.
"""

import array
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from paceline.engines.spark.driver_model import DriverModel
from paceline.engines.spark.environment import TASK
from paceline.engines.spark.event_log import GROUP, EventLog, JobRecord, TaskRecord
from paceline.engines.spark.gradient_task import Share, read_all, worker_of
from paceline.engines.spark.reporter import drain, wall_offset_ns
from paceline.engines.spark.step_times import StepMarks
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import TrainingState
from paceline.train.context import TaskContext

_FIND = "find-tasks"


class ShareOfExamples:
    """Yields the training examples of one worker as rows of label and features: its batches of the first epoch."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        read_all(rows)
        worker = worker_of(self._job.value)
        batches = worker.batches(index)
        for step in range(worker.steps_per_epoch):
            batch = batches.at(step)
            if worker.is_sparse:
                for indices, features, label in zip(*batch.inputs[:2], batch.target, strict=True):
                    order = np.argsort(indices)
                    yield float(label), indices[order].tolist(), features[order].astype(float).tolist()
            else:
                for row, label in zip(batch.inputs[0].astype(np.float64), batch.target, strict=True):
                    yield float(label), array.array("d", row.tobytes())


class NameOfTask:
    """Yields the name of the task to which the executor belongs."""

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[tuple[int, str | None]]:
        read_all(rows)
        yield index, os.environ.get(TASK)


class Iterations(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of MLlib did."""

    made: int
    losses: list[float]
    """The loss over all training examples before each iteration."""
    start_ns: int
    end_ns: int
    wall_offset_ns: int
    group: str
    converged: bool

    def marks(self, jobs: Sequence[JobRecord], updates: int) -> Iterator[tuple[StepMarks, JobRecord, float]]:
        """Each iteration as the driver saw it, with its job and its loss. `updates` were made before the call."""
        start = self.start_ns
        for number, job in enumerate(jobs):
            is_last = number == len(jobs) - 1
            submitted, ended = (ms * 1_000_000 - self.wall_offset_ns for ms in (job.submitted_ms, job.ended_ms))
            end = self.end_ns if is_last else min(max(ended, start), self.end_ns)
            yield (
                StepMarks(
                    step=updates + number,
                    update=updates + number + 1,
                    start_ns=start,
                    broadcast_ns=min(max(submitted, start), end),
                    end_ns=end,
                    wall_offset_ns=self.wall_offset_ns,
                ),
                job,
                self.losses[number],
            )
            start = end


class Lbfgs(DriverModel):
    """The driver's part. Holds the parameters between two calls of MLlib."""

    def __init__(self, context: TaskContext, spark: Any) -> None:
        from pyspark.sql import SparkSession

        super().__init__(context, spark)
        self._session = SparkSession(spark)
        self._classes = self._model.shapes[-1][0] if self._model.loss == "softmax" else 2
        self._features = self._model.sparse.features if self._model.sparse else self._model.inputs[0]
        self.examples = 0

    def load(self) -> None:
        """Put the examples into the executors' memory."""
        self._spark.setLocalProperty(GROUP, "load")
        rows = self._partitions.mapPartitionsWithIndex(ShareOfExamples(self._job))
        self._data = (_sparse_frame if self._model.sparse else _dense_frame)(self._session, rows, self._features)
        self._data = self._data.persist()
        self.examples = self._data.count()

    def warm_up(self) -> None:
        """Load the data and make one iteration, whose result is dropped."""
        self.load()
        self._fit("warm-up", 1)

    def find_tasks(self, events: EventLog) -> dict[str, str]:
        """To which task each executor belongs."""
        self._spark.setLocalProperty(GROUP, _FIND)
        names = dict(self._partitions.mapPartitionsWithIndex(NameOfTask()).collect())
        drain(self._spark)
        ran = [task for job in events.ended_jobs() if job.group == _FIND for task in job.tasks]
        return {task.executor: name for task in ran if (name := names.get(task.partition))}

    def iterate(self, most: int) -> Iterations:
        """Make up to `most` iterations and keep the model."""
        start, group = clock_ns(), f"iterations-{clock_ns()}"
        model = self._fit(group, most)
        end, history = clock_ns(), list(model.summary.objectiveHistory)
        self._values = self._values_of(model)
        made = len(history) - 1
        return Iterations(
            made=made,
            losses=history[:-1],
            start_ns=start,
            end_ns=end,
            wall_offset_ns=wall_offset_ns(),
            group=group,
            converged=made < most,
        )

    def details(self) -> dict[str, float]:
        """What the program reports about itself."""
        return {"examples_in_memory": self.examples}

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, self.parameters())

    def _fit(self, group: str, iterations: int) -> Any:
        from pyspark.ml.classification import LogisticRegression

        self._spark.setLocalProperty(GROUP, group)
        multinomial = self._model.loss == "softmax"
        regression = LogisticRegression(
            maxIter=iterations,
            tol=0.0,
            regParam=0.0,
            standardization=False,
            family="multinomial" if multinomial else "binomial",
        )
        # MLlib starts from zero by itself; a vector of many zeros would take long to pass to the JVM.
        if self._values.any():
            regression._java_obj.setInitialModel(self._java_model(multinomial))
        return regression.fit(self._data)

    def _java_model(self, multinomial: bool) -> Any:
        """The current parameters as a model of MLlib, from which it starts."""
        jvm, parameters = self._spark._jvm, self.parameters()
        weights = parameters["0.weight"].reshape(self._features, -1).astype(np.float64)
        intercepts = parameters["0.bias"].reshape(-1).astype(np.float64)
        rows, columns = weights.shape[1], weights.shape[0]
        # MLlib's matrix has a row for each class; its values are stored column by column, as ours are.
        matrix = jvm.org.apache.spark.ml.linalg.DenseMatrix(rows, columns, _doubles(self._spark, weights.reshape(-1)))
        vector = jvm.org.apache.spark.ml.linalg.DenseVector(_doubles(self._spark, intercepts))
        kind = jvm.org.apache.spark.ml.classification.LogisticRegressionModel
        return kind("paceline", matrix, vector, self._classes, multinomial)

    def _values_of(self, model: Any) -> Any:
        weights = np.asarray(model.coefficientMatrix.toArray(), np.float32).T
        return np.concatenate([weights.reshape(-1), np.asarray(model.interceptVector.toArray(), np.float32)])


def iteration_jobs(jobs: Sequence[JobRecord], iterations: int) -> list[JobRecord]:
    """The jobs of a call of MLlib, as one job for each iteration.

    MLlib makes one job for each evaluation of the loss. The first ones of a call collect statistics and the loss at the
    start; they belong to the first iteration.
    """
    ordered = sorted(jobs, key=lambda job: job.job)
    surplus = max(0, len(ordered) - iterations)
    parts: list[list[JobRecord]] = [[] for _ in range(iterations)]
    for number, job in enumerate(ordered):
        parts[max(0, number - surplus)].append(job)
    return [_one_job(part) for part in parts if part]


def _one_job(jobs: Sequence[JobRecord]) -> JobRecord:
    """Several jobs as one, with one task for each partition of the data."""
    by_partition: dict[int, list[TaskRecord]] = {}
    for job in jobs:
        for task in job.tasks:
            by_partition.setdefault(task.partition, []).append(task)
    return JobRecord(
        job=jobs[0].job,
        group=jobs[0].group,
        submitted_ms=jobs[0].submitted_ms,
        ended_ms=jobs[-1].ended_ms,
        stages=[],
        tasks=[_one_task(partition, tasks) for partition, tasks in sorted(by_partition.items())],
    )


def _one_task(partition: int, tasks: Sequence[TaskRecord]) -> TaskRecord:
    ordered = sorted(tasks, key=lambda task: task.launch_ms)
    summed = ("deserialize_ms", "run_ms", "gc_ms", "serialize_ms", "getting_result_ms", "fetch_wait_ms", "result_bytes")
    gaps = (later.launch_ms - before.finish_ms for before, later in pairwise(ordered))
    return TaskRecord(
        stage=0,
        partition=partition,
        executor=ordered[0].executor,
        launch_ms=ordered[0].launch_ms,
        finish_ms=max(task.finish_ms for task in ordered),
        between_ms=sum(max(0, gap) for gap in gaps),
        **{name: sum(getattr(task, name) for task in ordered) for name in summed},
    )


def shares_of(job: JobRecord, loss: float, tasks_by_executor: Mapping[str, str]) -> list[Share]:
    """What the executors did in an iteration: no Python code runs in it, so Spark's metrics are all that is known."""
    return [
        Share(
            task.partition,
            tasks_by_executor.get(task.executor),
            loss,
            pull_ns=0,
            data_ns=0,
            compute_ns=max(0, task.run_ms - task.gc_ms - task.fetch_wait_ms) * 1_000_000,
        )
        for task in job.tasks
    ]


def _doubles(spark: Any, values: Any) -> Any:
    """An array of Java doubles. py4j would send every number by itself; bytes go as a whole."""
    buffer = spark._jvm.java.nio.ByteBuffer.wrap(bytearray(values.astype(">f8").tobytes())).asDoubleBuffer()
    numbers = spark._gateway.new_array(spark._jvm.double, len(values))
    buffer.get(numbers)
    return numbers


def _dense_frame(session: Any, rows: Any, _features: int) -> Any:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

    schema = StructType(
        [StructField("label", DoubleType(), False), StructField("values", ArrayType(DoubleType(), False), False)]
    )
    frame = session.createDataFrame(rows, schema, verifySchema=False)
    return frame.select("label", array_to_vector("values").alias("features"))


def _sparse_frame(session: Any, rows: Any, features: int) -> Any:
    from pyspark.ml.linalg import SparseVector, VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    schema = StructType([StructField("label", DoubleType(), False), StructField("features", VectorUDT(), False)])
    vectors = rows.map(lambda row: (row[0], SparseVector(features, row[1], row[2])))
    return session.createDataFrame(vectors, schema, verifySchema=False)
