"""A worker's side of a product of block matrices, as far as engines do not differ. A step is the whole product.

fetch the partners that lie elsewhere   pull
multiply, and take the traces           compute
add them up over all workers            push
"""

from collections.abc import Sequence

from paceline.data.batches import Batch
from paceline.train.checkpoint import TrainingState
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Predictor, Step
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.parameters import Parameters


class MatmulWorker:
    """Plays the part of a strategy in the loop; an engine gives it the methods that raise here."""

    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        job = context.job
        self._job, self._recorder, self._product = job, context.recorder, product
        self._pairs = product.pairs_of(job.index, job.workers)
        self._away = [pair for pair in self._pairs if self._home(*pair) != job.index]
        # Known to all alike: a worker that needs nothing may still hold what another needs.
        self._something_moves = product.placement == "scattered" and job.workers > 1
        self._agreement = StopConsensus(self._broadcast, job.eval_every)
        self._updates = 0
        self.fetched_bytes = 0
        self.trace: float | None = None

    # ---- to be given by each engine ----

    def _fetch(self) -> None:
        """Get the partners that lie elsewhere, however often they were fetched before."""
        raise NotImplementedError

    def _multiply(self) -> float:
        """The sum of the traces of this worker's products."""
        raise NotImplementedError

    def _add_up(self, numbers: Sequence[float]) -> list[float]:
        """Two numbers' sums over all workers. Called by all of two or more; none returns before all have called."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    # ---- the contract of a strategy ----

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        if self._something_moves:
            with self._recorder.pull:
                self._fetch()
            self.fetched_bytes += len(self._away) * self._product.block_bytes
        with self._recorder.compute:
            mine = self._multiply()
        with self._recorder.push:
            self.trace, _ = self._total([mine, 0.0])
        self._updates += 1
        return Step(self.trace, self._updates)

    def stop_now(self, mine: bool, update: int) -> bool:
        return self._agreement.stop_now(mine, update)

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        raise NotImplementedError("a product predicts nothing")

    def parameters(self) -> Parameters:
        return {}

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, {})

    # ---- for the engines ----

    def _warm_up(self) -> None:
        """Everything once before the clock starts. The sum comes first: after it, all have their blocks in place."""
        self._total([0.0, 0.0])
        if self._something_moves:
            self._fetch()
        self._multiply()

    def _home(self, i: int, j: int) -> int:
        return self._product.partner_owner(i, j, self._job.workers)

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """A sum in which only the chief's part is not zero."""
        with self._recorder.wait:
            told = self._total([first, second] if self._job.is_chief else [0, 0])
        return int(told[0]), int(told[1])

    def _total(self, numbers: Sequence[float]) -> list[float]:
        return self._add_up(numbers) if self._job.workers > 1 else list(numbers)


def compute(context: TaskContext, worker: MatmulWorker) -> Outcome:
    """The whole run of a worker, and what it came to."""
    outcome = train(context, worker)
    outcome.fetched_bytes = worker.fetched_bytes
    if context.job.is_chief:
        outcome.value = worker.trace
    return outcome
