"""The worker of strategy allreduce: DistributedDataParallel averages the gradients while backward still runs."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.data.batches import Batch
from paceline.engines.torch.compressed_allreduce import CompressedAllReduce
from paceline.engines.torch.gradient_exchange import Exchange, GlooExchange, SharedMemoryExchange
from paceline.engines.torch.network import Network
from paceline.engines.torch.optimizer import TorchOptimizer
from paceline.engines.torch.process_group import join_process_group
from paceline.engines.torch.same_parameters import SameParameters
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState
from paceline.train.compression import compression_of
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Step


class AllReduce(SameParameters):
    """One of several workers that all have the same parameters and apply the same mean gradient in every step."""

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        job, model = context.job, context.model
        initial = InitialState(context)
        self._network = Network(model, initial.values())
        # Before DDP and the exchange of gradients are set up: this computes without the other workers.
        self._network.warm_up(context, model.blank(job.batch))
        for tensor in self._network.tensors:
            tensor.grad = None
        self._exchange = _join_exchange(context, self._network)
        self._optimizer = TorchOptimizer(self._network, job.optimizer, initial)
        self._parallel = DistributedDataParallel(self._network.module, gradient_as_bucket_view=True)
        self._parallel.register_comm_hook(self, AllReduce.sum)
        self._exchange_start_ns = 0
        # Two warm-up passes, because DDP rebuilds its buckets after the first one.
        for _ in range(2):
            self._differentiate(model.blank(job.batch))
        self._updates = initial.update

    @property
    def exchanged(self) -> Exchanged:
        return self._exchange.exchanged

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._differentiate(batch)
        exchange_end = clock_ns()
        self._optimizer.step()
        exchange_start = self._exchange_start_ns
        # The gradient exchange lies inside of the computation, but a phase is recorded as one interval. So `compute` is
        # made to end earlier by the duration of the exchange: it is then as long as the computation alone.
        computed = clock_ns() - (exchange_end - exchange_start)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = exchange_start, exchange_end
        self._updates += 1
        return Step(loss, self._updates)

    def _differentiate(self, batch: Batch) -> float:
        """The loss of a batch. The mean gradients of all workers are then in the `grad` of the parameters."""
        self._network.clear_gradients()
        self._exchange.begin()
        loss = self._network.loss(batch, self._parallel)
        # With the loss divided by the number of workers, the sum of the gradients is their mean. Dividing the gradients
        # instead would take another pass over all of them.
        (loss / self._workers).backward()
        return loss.item()

    def sum(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start to sum a bucket over all workers; DDP calls this hook when the gradients of the bucket are complete."""
        # Only the call for the last bucket counts: from then on, the step only waits for the exchange.
        self._exchange_start_ns = clock_ns()
        return self._exchange.sum(bucket)


def _join_exchange(context: TaskContext, network: Network) -> Exchange:
    """Join the process group, and return the exchange of gradients that the transport of the run asks for."""
    if context.job.transport != "memory" or context.job.workers == 1:
        join_process_group(context)
        return GlooExchange(context.job.workers)
    exchange = SharedMemoryExchange(context.job, network)
    exchange.map_peers(join_process_group(context, exchange.address))
    return exchange


def make_allreduce(context: TaskContext) -> AllReduce | CompressedAllReduce:
    """The worker of the strategy, with or without compression."""
    compression = compression_of(context.job)
    return CompressedAllReduce(context, compression) if compression else AllReduce(context)
