"""The worker of strategy allreduce with compression: workers average their compressed gradients after backward."""

import numpy as np

from paceline.data.batches import Batch
from paceline.engines.torch.compressed_mean import compressed_mean
from paceline.engines.torch.network import Network
from paceline.engines.torch.optimizer import TorchOptimizer
from paceline.engines.torch.process_group import join_process_group
from paceline.engines.torch.same_parameters import SameParameters
from paceline.recording.recorder import clock_ns
from paceline.spec.compression import Compression
from paceline.train.checkpoint import InitialState
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Step


class CompressedAllReduce(SameParameters):
    """One of several workers that all have the same parameters and apply the same compressed mean gradient."""

    def __init__(self, context: TaskContext, compression: Compression) -> None:
        super().__init__(context)
        job, model = context.job, context.model
        initial = InitialState(context)
        self._network = Network(model, initial.values())
        self._gradient = np.zeros_like(self._network.vector)
        self._network.accumulate_gradients_in(self._gradient)
        self._optimizer = TorchOptimizer(self._network, job.optimizer, initial)
        self._network.warm_up(context, model.blank(job.batch))
        self._mean = compressed_mean(job, model.parameters, compression)
        join_process_group(context)
        self._updates = initial.update

    @property
    def exchanged(self) -> Exchanged:
        return self._mean.exchanged

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._network.differentiate(batch)
        exchange_start = clock_ns()
        self._mean.take(self._gradient)
        exchange_end = clock_ns()
        self._optimizer.step()
        record = self._recorder.current
        # The optimizer runs after the exchange, but a phase is one interval: `compute` is made longer by its time.
        record.compute_start_ns, record.compute_end_ns = start, exchange_start + clock_ns() - exchange_end
        record.push_start_ns, record.push_end_ns = exchange_start, exchange_end
        self._updates += 1
        return Step(loss, self._updates)
