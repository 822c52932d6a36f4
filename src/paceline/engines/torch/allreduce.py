"""DistributedDataParallel: workers average their gradients while backward still runs."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.data.batches import Batch
from paceline.engines.torch.gradient_exchange import Exchange, Gloo, SharedMemory
from paceline.engines.torch.network import Network, TorchSgd
from paceline.engines.torch.process_group import join
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Predictor, Step
from paceline.workloads.parameters import Parameters


class AllReduce:
    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        self._recorder, self._workers = context.recorder, job.workers
        beginning = InitialState(context)
        self._network = Network(model, beginning.values())
        self._exchange = _exchange(context, self._network)
        self._descent = TorchSgd(self._network, job, beginning)
        self._parallel = DistributedDataParallel(self._network.module, gradient_as_bucket_view=True)
        self._parallel.register_comm_hook(self, AllReduce.sum)
        self._average_started_ns = 0
        # Twice: DDP arranges its buckets anew after the first pass.
        for _ in range(2):
            self._differentiate(model.blank(job.batch))
        self._updates = beginning.update
        self._agreement = StopConsensus(self._broadcast, job.eval_every)
        self._word = torch.zeros(2, dtype=torch.int64)

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._differentiate(batch)
        averaged = clock_ns()
        self._descent.step()
        exchange = self._average_started_ns
        # One stretch, though the exchange lies in it: as long as all but that.
        computed = clock_ns() - (averaged - exchange)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = exchange, averaged
        self._updates += 1
        return Step(loss, self._updates)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._agreement.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def state(self, update: int) -> TrainingState:
        return self._descent.state(update)

    def close(self) -> None:
        dist.destroy_process_group()

    def _differentiate(self, batch: Batch) -> float:
        self._network.forget()
        self._exchange.begin()
        loss = self._network.loss(batch, self._parallel)
        # The loss divided, the sum of the gradients is their mean: a pass over all of them is saved.
        (loss / self._workers).backward()
        return loss.item()

    def _broadcast(self, first: int, second: int) -> tuple[int, int]:
        with self._recorder.wait:
            self._word[0], self._word[1] = first, second
            dist.broadcast(self._word, src=0)
        first, second = self._word.tolist()
        return first, second

    def sum(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        # The last bucket's start ends `compute`.
        self._average_started_ns = clock_ns()
        return self._exchange.sum(bucket)


def _exchange(context: TaskContext, network: Network) -> Exchange:
    if context.job.transport != "memory" or context.job.workers == 1:
        join(context)
        return Gloo()
    exchange = SharedMemory(context.job, network)
    exchange.meet(join(context, exchange.address))
    return exchange
