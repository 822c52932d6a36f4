"""Gradient descent as Spark users write it by hand: broadcast, a gradient per partition, treeAggregate, update."""

from typing import Any

import numpy as np

from paceline.data.batches import Array
from paceline.engines.spark.driver_model import DriverModel
from paceline.engines.spark.event_log import GROUP
from paceline.engines.spark.gradient_task import (
    FirstRows,
    GradientTask,
    Part,
    RowsPart,
    RowsTask,
    add_parts,
    add_rows_parts,
)
from paceline.engines.spark.lineage import Lineage
from paceline.engines.spark.reporter import wall_offset_ns
from paceline.engines.spark.step_result import BspStep
from paceline.engines.spark.step_times import StepMarks
from paceline.engines.spark.warm_up import WARM_UP_JOBS, run_empty_tasks
from paceline.recording.recorder import clock_ns
from paceline.train.block_optimizer import BlockOptimizer, clip_vector, sections_of
from paceline.train.checkpoint import TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged
from paceline.workloads.parameters import views


class BspSgd(DriverModel):
    """The driver's part: it holds the parameters, and makes an update in each step."""

    def __init__(self, context: TaskContext, spark: Any) -> None:
        super().__init__(context, spark)
        job = context.job
        self._optimizer = BlockOptimizer(
            self._values,
            job.optimizer,
            sections=sections_of(job.optimizer, self._model.parameters),
            state=self._start.optimizer_state(),
        )
        every = job.options.get("lineage")
        self._lineage = Lineage(self._partitions, every) if every else None
        self.exchanged = [Exchanged() for _ in range(job.workers)]
        """By the number of the worker whose batch it was."""

    def warm_up(self) -> None:
        """Load the data in the executors and compile what a step needs; changes nothing."""
        for number in range(WARM_UP_JOBS):
            self._aggregate(f"warm-up-{number}", self.first_step)
        run_empty_tasks(self._spark, self._partitions)

    def step(self, number: int) -> BspStep:
        group = f"step-{number}"
        start = clock_ns()
        if self._lineage:
            self._spark.setLocalProperty(GROUP, "lineage")
            self._partitions = self._lineage.next_step()
        part, broadcast_ns = self._aggregate(group, number)
        self._count(part)
        self._update(part, number)
        marks = StepMarks(
            step=number,
            update=number + 1,
            start_ns=start,
            broadcast_ns=broadcast_ns,
            end_ns=clock_ns(),
            wall_offset_ns=wall_offset_ns(),
        )
        return BspStep(group=group, marks=marks, shares=sorted(part.shares))

    def details(self) -> dict[str, float]:
        """What the program reports about itself."""
        return self._lineage.details() if self._lineage else {}

    def state(self, update: int) -> TrainingState:
        shapes = self._model.parameters
        stored = {name: views(vector.copy(), shapes) for name, vector in self._optimizer.state.items()}
        return TrainingState(update, self.parameters(), stored)

    def _aggregate(self, group: str, number: int) -> tuple[Any, int]:
        """Run the job of one step; returns the sum of the workers' parts, and when the job was submitted."""
        values = self._spark.broadcast(self._to_send())
        submitted = clock_ns()
        self._spark.setLocalProperty(GROUP, group)
        tasks = self._partitions.mapPartitionsWithIndex(self._task(values, number))
        part = tasks.treeAggregate(None, self._add, self._add)
        values.destroy()
        return part, submitted

    def _to_send(self) -> Any:
        return self._values

    def _count(self, part: Part) -> None:
        for share in part.shares:
            self.exchanged[share.worker].received += self._values.nbytes
            self.exchanged[share.worker].sent += part.gradient.nbytes

    def _task(self, values: Any, number: int) -> GradientTask:
        return GradientTask(self._job, values, number)

    _add = staticmethod(add_parts)

    def _update(self, part: Part, number: int) -> None:
        # The optimizer takes the mean of a list of gradients: this one is the sum already.
        gradient = part.gradient * np.float32(1 / len(part.shares))
        if clip := self._optimizer.optimizer.clip:
            clip_vector(gradient, clip)
        self._optimizer.step(slice(0, self._values.size), [gradient], number)


class RowsBspSgd(BspSgd):
    """The same for a sparse model: only the rows that the batches of a step use are broadcast and sent back."""

    def __init__(self, context: TaskContext, spark: Any) -> None:
        super().__init__(context, spark)
        first = self._partitions.mapPartitionsWithIndex(FirstRows(self._job, self.first_step)).collect()
        self._rows = self._all_rows(first)

    def _to_send(self) -> tuple[Array, Array]:
        return self._rows, self._values[self._rows]

    def _count(self, part: RowsPart) -> None:  # type: ignore[override]
        indices, values = self._to_send()
        for share, (rows, gradient), upcoming in zip(part.shares, part.rows, part.next_rows, strict=True):
            self.exchanged[share.worker].received += indices.nbytes + values.nbytes
            self.exchanged[share.worker].sent += rows.nbytes + gradient.nbytes + upcoming.nbytes

    def _task(self, values: Any, number: int) -> GradientTask:
        return RowsTask(self._job, values, number)

    _add = staticmethod(add_rows_parts)  # type: ignore[assignment]

    def _update(self, part: RowsPart, number: int) -> None:  # type: ignore[override]
        self._optimizer.step_rows(part.rows, number)
        self._rows = self._all_rows(part.next_rows)

    def _all_rows(self, rows: list[Array]) -> Array:
        """The rows of all workers in ascending order, and the bias, which is the last row of the model."""
        return np.append(np.unique(np.concatenate(rows)), self._values.size - 1)
