"""A worker of a block matrix product: the part that is the same in every engine. One step computes the whole product.

Phases of a step:
  pull     fetch the blocks that other workers hold
  compute  multiply pairs of blocks and take the traces
  push     sum the traces over all workers
"""

from collections.abc import Sequence

from paceline.data.batches import Batch
from paceline.train.checkpoint import TrainingState
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.parameters import Parameters


class MatmulWorker:
    """Acts as a strategy in the training loop. Engines implement the methods that raise NotImplementedError here."""

    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        job = context.job
        self._job, self._recorder, self._product = job, context.recorder, product
        self._pairs = product.pairs_of(job.index, job.workers)
        self._remote_pairs = [pair for pair in self._pairs if self._owner_of_partner(*pair) != job.index]
        # The same for all workers: one that needs no block may hold blocks that others need.
        self._any_transfer = product.placement == "scattered" and job.workers > 1
        self._stop_consensus = StopConsensus(self._broadcast, job.eval_every)
        self._updates = 0
        self.fetched_bytes = 0
        self.trace: float | None = None

    # ---- implemented by each engine ----

    def _fetch(self) -> None:
        """Fetch the blocks that other workers hold; they are fetched again in every step."""
        raise NotImplementedError

    def _multiply(self) -> float:
        """The sum of the traces of this worker's block products."""
        raise NotImplementedError

    def _all_sum(self, numbers: Sequence[float]) -> list[float]:
        """Sum each number over all workers. Only called with two or more workers; also acts as a barrier."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    # ---- the contract of a strategy ----

    @property
    def exchanged(self) -> Exchanged:
        """Only what this worker fetches: it does not see what others fetch from it."""
        return Exchanged(received=self.fetched_bytes)

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        if self._any_transfer:
            with self._recorder.pull:
                self._fetch()
            self.fetched_bytes += len(self._remote_pairs) * self._product.block_bytes
        with self._recorder.compute:
            own_trace = self._multiply()
        with self._recorder.push:
            self.trace, _ = self._sum_over_workers([own_trace, 0.0])
        self._updates += 1
        return Step(self.trace, self._updates)

    def stop_now(self, own_trace: bool, update: int) -> bool:
        return self._stop_consensus.stop_now(own_trace, update)

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        raise NotImplementedError("a matrix product has no predictions")

    def parameters(self) -> Parameters:
        return {}

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, {})

    # ---- for the engines ----

    def _warm_up(self) -> None:
        """Do everything once before the clock starts. The sum comes first, as a barrier: then all blocks exist."""
        self._sum_over_workers([0.0, 0.0])
        if self._any_transfer:
            self._fetch()
        self._multiply()

    def _owner_of_partner(self, i: int, j: int) -> int:
        return self._product.partner_owner(i, j, self._job.workers)

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """A broadcast by summation: only the chief contributes values other than zero."""
        with self._recorder.wait:
            sums = self._sum_over_workers([first, second] if self._job.is_chief else [0, 0])
        return int(sums[0]), int(sums[1])

    def _sum_over_workers(self, numbers: Sequence[float]) -> list[float]:
        return self._all_sum(numbers) if self._job.workers > 1 else list(numbers)


def run_matmul(context: TaskContext, worker: MatmulWorker) -> Outcome:
    """Run a worker until the end; the chief's outcome has the trace as `value`."""
    outcome = train(context, worker)
    outcome.fetched_bytes = worker.fetched_bytes
    if context.job.is_chief:
        outcome.value = worker.trace
    return outcome
