"""The worker of strategy allreduce: DistributedDataParallel averages the gradients while backward still runs."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.data.batches import Batch
from paceline.engines.torch.gradient_exchange import Exchange, GlooExchange, SharedMemoryExchange
from paceline.engines.torch.network import Network, TorchSgd
from paceline.engines.torch.process_group import join_process_group
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.parameters import Parameters


class AllReduce:
    """One of several workers that all have the same parameters and apply the same mean gradient in every step."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        self._recorder, self._workers = context.recorder, job.workers
        initial = InitialState(context)
        self._network = Network(model, initial.values())
        # Before DDP and the exchange of gradients are set up: this computes without the other workers.
        self._network.warm_up(context, model.blank(job.batch))
        for tensor in self._network.tensors:
            tensor.grad = None
        self._exchange = _join_exchange(context, self._network)
        self._sgd = TorchSgd(self._network, job, initial)
        self._parallel = DistributedDataParallel(self._network.module, gradient_as_bucket_view=True)
        self._parallel.register_comm_hook(self, AllReduce.sum)
        self._exchange_start_ns = 0
        # Two warm-up passes, because DDP rebuilds its buckets after the first one.
        for _ in range(2):
            self._differentiate(model.blank(job.batch))
        self._updates = initial.update
        self._stop_consensus = StopConsensus(self._broadcast, job.eval_every)
        self._broadcast_buffer = torch.zeros(2, dtype=torch.int64)

    @property
    def exchanged(self) -> Exchanged:
        return self._exchange.exchanged

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._differentiate(batch)
        exchange_end = clock_ns()
        self._sgd.step()
        exchange_start = self._exchange_start_ns
        # The gradient exchange lies inside of the computation, but a phase is recorded as one interval. So `compute` is
        # made to end earlier by the duration of the exchange: it is then as long as the computation alone.
        computed = clock_ns() - (exchange_end - exchange_start)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = exchange_start, exchange_end
        self._updates += 1
        return Step(loss, self._updates)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._stop_consensus.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        """Do nothing: every worker already has the final parameters."""

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def state(self, update: int) -> TrainingState:
        return self._sgd.state(update)

    def close(self) -> None:
        dist.destroy_process_group()

    def _differentiate(self, batch: Batch) -> float:
        """The loss of a batch. The mean gradients of all workers are then in the `grad` of the parameters."""
        self._network.clear_gradients()
        self._exchange.begin()
        loss = self._network.loss(batch, self._parallel)
        # With the loss divided by the number of workers, the sum of the gradients is their mean. Dividing the gradients
        # instead would take another pass over all of them.
        (loss / self._workers).backward()
        return loss.item()

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        """The chief's two numbers, in every worker."""
        with self._recorder.wait:
            self._broadcast_buffer[0], self._broadcast_buffer[1] = first, second
            dist.broadcast(self._broadcast_buffer, src=0)
        first, second = self._broadcast_buffer.tolist()
        return first, second

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
