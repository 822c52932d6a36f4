"""The worker of strategy single: one worker trains alone, without communication. It is the baseline."""

from paceline.data.batches import Batch
from paceline.engines.torch.network import Network
from paceline.engines.torch.optimizer import TorchOptimizer
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, SingleWorker, Step
from paceline.workloads.parameters import Parameters


class Single(SingleWorker):
    """A worker that applies its own gradients to its own parameters."""

    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder = context.recorder
        initial = InitialState(context)
        self._network = Network(context.model, initial.values())
        self._optimizer = TorchOptimizer(self._network, job.optimizer, initial)
        self._network.warm_up(context, context.model.blank(job.batch))
        self._updates = initial.update

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._network.differentiate(batch)
        self._optimizer.step()
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, clock_ns()
        self._updates += 1
        return Step(loss, self._updates)

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def state(self, update: int) -> TrainingState:
        return self._optimizer.state(update)
