"""What workers have in common that keep the same parameters, without a server: they agree when to stop through gloo."""

import torch
import torch.distributed as dist

from paceline.engines.torch.network import Network
from paceline.engines.torch.optimizer import TorchOptimizer
from paceline.recording.recorder import Recorder
from paceline.train.checkpoint import TrainingState
from paceline.train.context import TaskContext
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Predictor
from paceline.workloads.parameters import Parameters


class SameParameters:
    """One of several workers that all have the same parameters after every step. A subclass makes the steps."""

    _network: Network
    _optimizer: TorchOptimizer
    _updates: int

    def __init__(self, context: TaskContext) -> None:
        self._recorder: Recorder = context.recorder
        self._workers = context.job.workers
        self._stop_consensus = StopConsensus(self._broadcast, context.job.eval_every)
        self._broadcast_buffer = torch.zeros(2, dtype=torch.int64)

    def start(self) -> int:
        return self._updates

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._stop_consensus.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        """Do nothing: every worker already has the final parameters."""

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def state(self, update: int) -> TrainingState:
        return self._optimizer.state(update)

    def close(self) -> None:
        dist.destroy_process_group()

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """The chief's two numbers, in every worker."""
        with self._recorder.wait:
            self._broadcast_buffer[0], self._broadcast_buffer[1] = first, second
            dist.broadcast(self._broadcast_buffer, src=0)
        first, second = self._broadcast_buffer.tolist()
        return first, second
