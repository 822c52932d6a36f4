"""The worker of strategies local-sgd and diloco: it trains alone for a round of steps, then all workers exchange what
they changed.

In local-sgd, the parameters of all workers become their mean. In diloco (Douillard et al. 2023), the mean of what the
workers changed is the gradient of an outer step: SGD with Nesterov momentum on the global parameters, which all workers
then continue from. The optimizer of the steps inside of a round keeps its state, which is never exchanged.
"""

import torch
import torch.distributed as dist

from paceline.data.batches import Batch
from paceline.engines.torch.compressed_mean import compressed_mean
from paceline.engines.torch.network import Network
from paceline.engines.torch.optimizer import TorchOptimizer
from paceline.engines.torch.process_group import join_process_group
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import OUTER_VELOCITY, InitialState, TrainingState
from paceline.train.compression import compression_of
from paceline.train.context import TaskContext
from paceline.train.outer_step import OuterStep
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.parameters import Parameters

_BROADCAST_EVERY_S = 2.0
"""How long a round may take before the chief tells the others whether the run ends. A broadcast makes workers wait for
each other, so it should be rare."""
_CONTINUE, _STOP, _END_ROUND = 0, 1, 2
"""What the chief broadcasts. The last: end this round with the next step, because the chief needs the global parameters
for a checkpoint."""


class LocalSteps:
    """One of several workers that have the same parameters at the end of each round."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        self._job, self._recorder, self._halted = job, context.recorder, context.rendezvous.halted
        initial = InitialState(context)
        self._network = Network(model, initial.values())
        self._optimizer = TorchOptimizer(self._network, job.optimizer, initial)
        self._network.warm_up(context, model.blank(job.batch))
        self._vector = torch.from_numpy(self._network.vector)
        options, compression = job.strategy_options, compression_of(job)
        self._sync_every = int(options["sync_every"])
        self._outer = OuterStep(
            self._network.vector,
            lr=float(options.get("outer_lr", 1.0)),
            momentum=float(options.get("outer_momentum", 0.0)),
            velocity=initial.optimizer_state().get(OUTER_VELOCITY),
            from_changes=compression is not None,
        )
        join_process_group(context)
        self._mean = compressed_mean(job, model.parameters, compression) if compression else None
        self._exchanged = Exchanged()
        self._updates = self._round_ended_at = initial.update
        self._ends_round_next = False
        self._stop_consensus = StopConsensus(self._broadcast, self._sync_every, _BROADCAST_EVERY_S)
        self._broadcast_buffer = torch.zeros(2, dtype=torch.int64)
        self._stores_next_round = False
        """In the chief: whether a checkpoint will be written at the end of this round."""
        self._states_of_others: dict[int, dict[str, Parameters]] = {}

    @property
    def exchanged(self) -> Exchanged:
        return self._mean.exchanged if self._mean else self._exchanged

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        loss = self._network.differentiate(batch)
        self._optimizer.step()
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, clock_ns()
        self._updates += 1
        ends_round = self._ends_round_next or self._updates % self._sync_every == 0
        if ends_round:
            if self._ends_round_next:
                self._ends_round_next = False
                self._stop_consensus.broadcast_at(self._updates)
            record.push_start_ns = clock_ns()
            self._end_round()
            record.push_end_ns = clock_ns()
        return Step(loss, self._updates, has_global_parameters=ends_round)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return self._stop_consensus.stop_now(chief_wants_stop, update)

    def finish(self) -> None:
        """End a round that the end of the run cut short, so that the chief has the global parameters."""
        if self._round_ended_at != self._updates:
            self._end_round()

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def state(self, update: int) -> TrainingState:
        own, outer = self._optimizer.state(update), self._outer.velocity
        stored = {} if outer is None else {OUTER_VELOCITY: self._network.named(outer.copy())}
        return TrainingState(update, own.values, {**own.optimizer, **stored}, self._states_of_others)

    def snapshot_next_update(self) -> None:
        self._stores_next_round = True

    def close(self) -> None:
        dist.destroy_process_group()

    def _end_round(self) -> None:
        """Exchange the parameters with all workers, and continue from the same global parameters as they do."""
        if self._mean:
            # Changes are compressed, not parameters: they are small, so that what compression leaves out is small too.
            change = self._outer.change()
            self._mean.take(change)
            self._outer.set_mean_change(change)
        else:
            dist.all_reduce(self._vector)
            self._vector /= self._job.workers
            self._exchanged.add_allreduce(self._vector.nbytes, self._job.workers)
        self._outer.apply()
        self._round_ended_at = self._updates
        if self._job.optimizer.state_names:
            self._collect_states()

    def _collect_states(self) -> None:
        """If a checkpoint will be written now, send the state of each worker's own optimizer to the chief."""
        self._broadcast_buffer[0] = self._stores_next_round
        dist.broadcast(self._broadcast_buffer, src=0)
        self._stores_next_round, self._states_of_others = False, {}
        if not self._broadcast_buffer[0]:
            return
        for name, vector in self._optimizer.state_vectors().items():
            state = torch.from_numpy(vector)
            found = [torch.empty_like(state) for _ in range(self._job.workers)] if self._job.is_chief else None
            dist.gather(state, found, dst=0)
            for worker, other in enumerate(found or ()):
                if worker:
                    self._states_of_others.setdefault(worker, {})[name] = self._network.named(other.numpy())

    def _broadcast(self, chief_wants_stop: int, next_broadcast: int) -> tuple[int, int]:
        """Whether the chief wants to stop and at which update it broadcasts again, in every worker."""
        message = _STOP if chief_wants_stop else _CONTINUE
        if message == _CONTINUE and self._halted.is_set() and self._round_ended_at != self._updates:
            message = _END_ROUND
        with self._recorder.wait:
            self._broadcast_buffer[0], self._broadcast_buffer[1] = message, next_broadcast
            dist.broadcast(self._broadcast_buffer, src=0)
        message, next_broadcast = self._broadcast_buffer.tolist()
        self._ends_round_next = message == _END_ROUND
        return int(message == _STOP), next_broadcast
