"""A worker of the engine `echo`: softmax regression in NumPy, alone or together with other workers.

Paceline's `train` does what is the same for every engine: batches, stop rules, evaluations, checkpoints and records. An
engine adds a class for each strategy that makes one step and says how long its phases took.
"""

import numpy as np

from paceline.data.batches import Array, Batch
from paceline.errors import RunError
from paceline.recording.recorder import clock_ns
from paceline.train.block_optimizer import BlockOptimizer
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import Outcome, TaskContext
from paceline.train.evaluation import cross_entropy
from paceline.train.loop import train
from paceline.train.stop_consensus import StopConsensus
from paceline.train.strategy import Predictor, SingleWorker, Step
from paceline.workloads.parameters import Parameters, Vector, views
from paceline_echo.star import Star
from paceline_echo.strategy import UPDATES_BETWEEN_AVERAGES


def run(context: TaskContext) -> Outcome:
    """The whole work of one task. Paceline calls it in a process of its own."""
    workers = {"single": Single, "allreduce": AllReduce, "periodic-averaging": PeriodicAveraging}
    return train(context, workers[context.job.strategy](context))


class Single(SingleWorker):
    """One worker by itself."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        if len(model.parameters) != 2 or model.loss != "softmax":
            raise RunError("engine echo trains one Dense layer with the loss softmax: use another engine")
        self._recorder, self._shapes = context.recorder, model.parameters
        # The initial values come from the seed, or from a checkpoint if the run is resumed.
        initial = InitialState(context)
        self._values, self._updates = initial.values(), initial.update
        self._gradient = np.zeros_like(self._values)
        self._optimizer = BlockOptimizer(self._values, job.optimizer, state=initial.optimizer_state())

    def start(self) -> int:
        """Right after all tasks are ready: the number of updates so far."""
        return self._updates

    def step(self, batch: Batch) -> Step:
        """Compute the gradient of a batch, and make an update with it."""
        start_ns = clock_ns()
        loss = self._differentiate(batch)
        computed_ns = clock_ns()
        # The time at which each phase of this step began and ended. A phase that is not set took no time.
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start_ns, computed_ns
        self._exchange(self._gradient)
        self._optimizer.step(slice(0, self._values.size), [self._gradient], self._updates)
        self._updates += 1
        return Step(loss, self._updates)

    def predictor(self) -> Predictor:
        return self._outputs

    def parameters(self) -> Parameters:
        """Copies of the parameters by name, for the file that the run leaves."""
        return views(self._values.copy(), self._shapes)

    def state(self, update: int) -> TrainingState:
        """What a checkpoint holds."""
        stored = {name: views(vector.copy(), self._shapes) for name, vector in self._optimizer.state.items()}
        return TrainingState(update, self.parameters(), stored)

    def _outputs(self, inputs: Array) -> Array:
        weight, bias = views(self._values, self._shapes).values()
        outputs: Array = inputs @ weight + bias
        return outputs

    def _differentiate(self, batch: Batch) -> float:
        """Write the gradient of the mean loss, and return that loss."""
        (inputs,), labels = batch.inputs, batch.target
        outputs = self._outputs(inputs)
        errors = np.exp(outputs - outputs.max(1, keepdims=True))
        errors /= errors.sum(1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        errors /= len(labels)
        weight, bias = views(self._gradient, self._shapes).values()
        np.matmul(inputs.T, errors, out=weight)
        bias[:] = errors.sum(0)
        return float(cross_entropy(outputs, labels).mean())

    def _exchange(self, gradient: Vector) -> None:
        """Replace the gradient by the one to make the update with. Here it stays the worker's own."""


class _SeveralWorkers(Single):
    """What workers need to average vectors and to stop at the same update."""

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        self._star = Star(context)
        self._consensus = StopConsensus(self._star.broadcast, context.job.eval_every)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        """Whether the run ends now: the first worker decides, and all workers end at the same update."""
        return self._consensus.stop_now(chief_wants_stop, update)

    def close(self) -> None:
        self._star.close()

    def _average(self, vector: Vector) -> None:
        """Average a vector with the other workers, and record the time as the phase `push` of this step."""
        record = self._recorder.current
        record.push_start_ns = clock_ns()
        self._star.average(vector)
        record.push_end_ns = clock_ns()


class AllReduce(_SeveralWorkers):
    """Every worker makes the same update, with the mean of all gradients."""

    def _exchange(self, gradient: Vector) -> None:
        self._average(gradient)


class PeriodicAveraging(_SeveralWorkers):
    """Every worker makes updates with its own gradients; from time to time, all workers average their parameters."""

    def __init__(self, context: TaskContext) -> None:
        super().__init__(context)
        self._eval_every = context.job.eval_every

    def step(self, batch: Batch) -> Step:
        step = super().step(batch)
        # The chief evaluates its own parameters, so they must be the mean at that update. All workers know eval_every.
        evaluates = self._eval_every and step.update % self._eval_every == 0
        if step.update % UPDATES_BETWEEN_AVERAGES == 0 or evaluates:
            self._average(self._values)
        return step

    def finish(self) -> None:
        """Average once more, so that the chief stores and evaluates the mean of all workers."""
        self._star.average(self._values)
