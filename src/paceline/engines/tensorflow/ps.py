"""What the two parameter-server strategies share: variables on the servers, a fused step, traces, the end of a run.

A raw session instead of a monitored one: readiness is the run's own barrier, so no worker sleeps 30 s on a model
that is not ready yet, and no session is restored behind the user's back.
"""

from contextlib import suppress
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.data.batches import Batch
from paceline.engines.tensorflow import network, traces
from paceline.engines.tensorflow.cluster import ps_device, start_server, worker_device
from paceline.engines.tensorflow.optimizer import fed
from paceline.engines.tensorflow.predictor import LocalPredictor
from paceline.engines.tensorflow.session import Session
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.engines.tensorflow.transfer import carry
from paceline.plan.roles import SERVER, task_name, task_names
from paceline.recording.layout import TRACED, RecordKind
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, Step
from paceline.workloads.parameters import Parameters, by_name, views

tf1 = tf.compat.v1


class ParameterServerWorker:
    """A worker whose step is one run of a graph that spans worker and servers."""

    _stop: Any
    """The op by which the chief ends the run for all; built by each strategy."""
    _counter: Any
    """The variable that counts updates; built by each strategy."""
    _slots: list[Any]
    """The variables that hold the velocity of each parameter, if any; built by each strategy."""

    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._job, self._recorder, self._model = job, context.recorder, context.model
        self._shapes = self._model.parameters
        self._parameter_servers = _balance([shape.size for shape in self._shapes], job.servers)
        """For each parameter, the number of the server that stores it."""
        self._here = worker_device(job.index)
        self._trace_plan = traces.TracePlan(job.trace_every)
        server = start_server(context)
        self._graph = tf1.Graph()
        with self._graph.as_default():
            self._build()
        self._graph.finalize()
        self._session = Session(server.target, self._graph, job.threads, job.index)
        self._run = self._session.make_callable(self._fetches, [*self._inputs, self._target])
        self._set_up(InitialState(context))
        if job.is_chief:
            self._predictor = LocalPredictor(self._model, job.threads)
            context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(self._graph))

    # ---- to be built by each strategy ----

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        """What to do with this worker's gradients; returns what a step fetches."""
        raise NotImplementedError

    def _initializers(self) -> list[Any]:
        """Ops that set the strategy's own variables to their first values."""
        raise NotImplementedError

    def _outcome(self, fetched: list[NDArray[Any]]) -> Step:
        raise NotImplementedError

    # ---- the contract of a strategy ----

    def start(self) -> int:
        return self._first_update

    def step(self, batch: Batch) -> Step:
        if self._trace_plan.due(self._recorder.current.step):
            return self._traced_step(batch)
        start = clock_ns()
        try:
            fetched = self._run(*batch.inputs, batch.target)
        finally:
            # Also of a step that was refused: it took its time.
            record = self._recorder.current
            record.fused_start_ns, record.fused_end_ns = start, clock_ns()
        return self._outcome(fetched)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        if chief_wants_stop:
            self._session.run(self._stop)
        return chief_wants_stop

    def finish(self) -> None:
        with self._recorder.wait:
            self._session.run(self._await_done if self._job.is_chief else self._send_done)

    def predictor(self) -> Predictor:
        return self._predictor.with_values(self._session.run(self._read))

    def parameters(self) -> Parameters:
        return by_name(self._shapes, self._session.run(self._read))

    def state(self, update: int) -> TrainingState:
        update, values, velocity = self._session.run([self._counter, self._read, self._slots])
        return TrainingState(
            int(update), by_name(self._shapes, values), by_name(self._shapes, velocity) if velocity else {}
        )

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {task: {} for task in task_names(SERVER, self._job.servers)}
        for shape, server in zip(self._shapes, self._parameter_servers, strict=True):
            found[task_name(SERVER, server)][shape.name] = shape.size
        return found

    def close(self) -> None:
        self._session.close()

    # ---- how it is made ----

    def _build(self) -> None:
        self._build_variables()
        with tf.device(self._here):
            self._inputs = network.placeholders(self._model.feeds)
            self._target = network.placeholder_of(self._model.target)
        pulled = self._pull()
        with tf.device(self._here), tf.name_scope("compute"):
            loss = network.mean_loss(self._model, self._inputs, self._target, pulled)
            # "zero": what a user's model does not use has no gradient.
            found = tf.gradients(loss, pulled, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            gradients = [tf.convert_to_tensor(gradient) for gradient in found]
        self._fetches = self._build_step(self._push(gradients), loss)
        self._build_end()

    def _build_variables(self) -> None:
        self._variables, self._first_values = [], []
        for shape, server in zip(self._shapes, self._parameter_servers, strict=True):
            name = shape.name.replace(".", "_")
            with tf.device(ps_device(server)):
                self._variables.append(
                    tf1.get_variable(name, shape.shape, tf.float32, tf1.zeros_initializer(), use_resource=True)
                )
                self._first_values.append(tf1.placeholder(tf.float32, shape.shape, name=f"first/{name}"))
        self._read = [variable.read_value() for variable in self._variables]

    def _pull(self) -> list[Any]:
        return self._carry(self._reads(), to_worker=True)

    def _reads(self) -> list[Any]:
        """Each parameter as it is now, on its server; of sparse ones, the rows that the batch touches."""
        return [self._read_one(number) for number in range(len(self._variables))]

    def _read_one(self, number: int) -> Any:
        variable = self._variables[number]
        if number == 0 and self._model.by_rows:
            with tf.device(ps_device(self._parameter_servers[0])):
                rows = self._touched_rows()
                found = tf.raw_ops.ResourceGather(resource=variable.handle, indices=rows, dtype=tf.float32)
                found.set_shape([self._job.batch, self._model.by_rows.nonzeros])
                return found
        return variable.read_value()

    def _touched_rows(self) -> Any:
        return tf.identity(self._inputs[0], name="rows")

    def _push(self, gradients: list[Any]) -> list[Any]:
        return self._carry(gradients, to_worker=False)

    def _carry(self, tensors: list[Any], *, to_worker: bool) -> list[Any]:
        """Parameters to this worker, or gradients to the servers of their parameters."""
        moved: list[Any] = [None] * len(tensors)
        for server in sorted(set(self._parameter_servers)):
            on_server = [i for i, number in enumerate(self._parameter_servers) if number == server]
            ends = (ps_device(server), self._here) if to_worker else (self._here, ps_device(server))
            name = f"{'pull' if to_worker else 'push'}/{server}"
            for i, tensor in zip(on_server, carry([tensors[i] for i in on_server], *ends, name), strict=True):
                moved[i] = tensor
        return moved

    def _build_end(self) -> None:
        """Token queues by which the chief learns that all other workers are set up, and later that they are done."""
        others = self._job.workers - 1
        with tf.device(ps_device(0)):
            warm, done = (tf1.FIFOQueue(-1, tf.int64, [()], shared_name=name, name=name) for name in ("warm", "done"))
            self._warm, self._all_warm = warm.enqueue(0), warm.dequeue_many(others).op
            self._send_done, self._await_done = done.enqueue(0), done.dequeue_many(others).op
            firsts = [v.assign(first).op for v, first in zip(self._variables, self._first_values, strict=True)]
            self._initialize = tf.group(*firsts, *self._initializers())

    def _set_up(self, initial: InitialState) -> None:
        """Have the runtime build everything before the clock starts; then the chief sets the first values.

        The step is run against variables that do not exist yet: that fails, but only after the graph is cut,
        optimised and registered on every server, and before anything could be applied.
        """
        self._first_update = initial.update
        blank = self._model.blank(self._job.batch)
        with suppress(tf.errors.FailedPreconditionError, tf.errors.NotFoundError):  # Reads say this, gathers that.
            self._run(*blank.inputs, blank.target)
        if not self._job.is_chief:
            self._session.run(self._warm)
            return
        self._session.run(self._all_warm)
        values = views(initial.values(), self._shapes).values()
        self._session.run(self._initialize, dict(zip(self._first_values, values, strict=True)))
        self._restore(initial)

    def _restore(self, initial: InitialState) -> None:
        """What a checkpoint has beyond the values."""
        if initial.update:
            self._session.run(*fed(self._counter, initial.update))
        velocity = initial.velocity()
        if velocity is not None:
            for slot, value in zip(self._slots, views(velocity, self._shapes).values(), strict=True):
                self._session.run(*fed(slot, value))

    def _traced_step(self, batch: Batch) -> Step:
        """A step whose phases come from the runtime's own trace; its duration is not a fair one."""
        recorder, metadata = self._recorder, tf1.RunMetadata()
        recorder.current.flags = TRACED
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        feed = dict(zip((*self._inputs, self._target), (*batch.inputs, batch.target), strict=True))
        start = clock_ns()
        fetched = self._session.run(self._fetches, feed, options, metadata)
        for phase, seconds in traces.split(traces.from_metadata(metadata)).items():
            recorder.write(RecordKind[phase.upper()], start, int(seconds * 1e9))
        return self._outcome(fetched)


def _balance(sizes: list[int], servers: int) -> list[int]:
    """A server for each parameter. Greedy: the largest parameter first, each to the server with the lowest load."""
    load, assigned = [0] * servers, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        assigned[i] = load.index(min(load))
        load[assigned[i]] += sizes[i]
    return assigned
