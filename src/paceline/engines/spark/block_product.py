"""The trace of a product of matrices in blocks as Spark jobs: one job multiplies all blocks.

Each partition of the stored RDD is one worker. It is in the memory of one executor, so Spark runs its tasks there, and
the Python process of that executor keeps the blocks. Blocks that are stored by one worker and multiplied by another go
through a shuffle in every job.
"""

from typing import Any

from paceline.engines.spark.event_log import GROUP
from paceline.engines.spark.product_task import MultiplyBlocks, ProductPlan, SendBlocks
from paceline.engines.spark.reporter import wall_offset_ns
from paceline.engines.spark.step_result import BspStep
from paceline.engines.spark.step_times import StepMarks
from paceline.engines.spark.warm_up import WARM_UP_JOBS, run_empty_tasks
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Predictor
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.parameters import Parameters


class BlockProduct:
    """The driver's part: it starts the jobs and adds up the traces. `spark` is the SparkContext."""

    first_step = 0

    def __init__(self, context: TaskContext, spark: Any, product: BlockMatmul) -> None:
        job = context.job
        self.workers, self._spark = job.workers, spark
        self._plan = ProductPlan(run=job.run, product=product, workers=job.workers, seed=job.seed)
        self._fetches = product.receiver(0, job.workers) != 0
        numbers = spark.parallelize([(number, number) for number in range(job.workers)], job.workers)
        self._stored = numbers.partitionBy(job.workers, partition_of).persist()
        self.exchanged = [Exchanged() for _ in range(job.workers)]
        self.trace = 0.0

    def warm_up(self) -> None:
        """Assign each worker's partition to an executor, and make the blocks there."""
        self._stored.count()
        for number in range(WARM_UP_JOBS):
            self._traces(f"warm-up-{number}")
        run_empty_tasks(self._spark, self._stored)

    def step(self, number: int) -> BspStep:
        group, start = f"step-{number}", clock_ns()
        shares, submitted_ns = self._traces(group)
        self.trace = sum(share.loss for share in shares)
        marks = StepMarks(
            step=number,
            update=number + 1,
            start_ns=start,
            broadcast_ns=submitted_ns,
            end_ns=clock_ns(),
            wall_offset_ns=wall_offset_ns(),
            exchange_first=self._fetches,
        )
        return BspStep(group=group, marks=marks, shares=[share._replace(loss=self.trace) for share in shares])

    def details(self) -> dict[str, float]:
        return {}

    def predictor(self) -> Predictor:
        raise NotImplementedError("a matrix product has no predictions")

    def parameters(self) -> Parameters:
        return {}

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, {})

    def _traces(self, group: str) -> tuple[list[Any], int]:
        """Run the job of one product; returns what each worker did, and when the job was submitted."""
        self._spark.setLocalProperty(GROUP, group)
        factors, sent = self._stored, None
        if self._fetches:
            sent = self._stored.mapPartitionsWithIndex(SendBlocks(self._plan)).partitionBy(self.workers, partition_of)
            # Not a join: a partition must stay where its worker's blocks are, whatever it receives from where.
            factors = self._stored.zip(sent)
        multiplied = factors.mapPartitionsWithIndex(MultiplyBlocks(self._plan, fetches=self._fetches))
        submitted = clock_ns()
        shares = sorted(multiplied.collect())
        if sent is not None:
            # Spark itself removes the files of a shuffle only when the driver collects garbage.
            sent._jrdd.rdd().cleanShuffleDependencies(False)
        return shares, submitted


def partition_of(worker: int) -> int:
    """The partition of a worker has its number."""
    return worker
