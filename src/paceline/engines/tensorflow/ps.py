"""The common part of the workers of ps-sync and ps-async: variables on the servers, steps, traces, the end of a run.

A worker uses a plain session, not a MonitoredSession: the run has its own barrier for readiness. A MonitoredSession
would let a worker sleep for 30 s if the model is not ready yet, and would restore a lost session without notice.
"""

from contextlib import suppress
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from paceline.data.batches import Batch
from paceline.engines.tensorflow import network, traces
from paceline.engines.tensorflow.cluster import ps_device, start_server, worker_device
from paceline.engines.tensorflow.optimizer import (
    Slots,
    Updater,
    assignment,
    graph_slots,
    named_state,
    restore_slots,
    slot_initializers,
)
from paceline.engines.tensorflow.predictor import LocalPredictor
from paceline.engines.tensorflow.session import Session
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.engines.tensorflow.transfer import transfer_tensors
from paceline.plan.roles import SERVER, task_name, task_names
from paceline.recording.layout import TRACED, RecordKind
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.parameters import Parameters, by_name, views

tf1 = tf.compat.v1


class ParameterServerWorker:
    """A worker whose step is one run of a graph that is distributed over the worker and the servers.

    Its subclasses build the part of the graph that applies the gradients.
    """

    _stop: Any
    """The op with which the chief ends the run for all workers; built by the subclass."""
    _counter: Any
    """The variable on server 0 that counts updates."""
    _updater: Updater
    """Builds the ops of an update."""
    _slots: Slots
    """The variables that store the optimizer's state."""

    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._job, self._recorder, self._model = job, context.recorder, context.model
        self._shapes = self._model.parameters
        self._parameter_servers = _assign_servers([shape.size for shape in self._shapes], job.servers)
        """For each parameter, the number of the server that stores it."""
        self._worker_device = worker_device(job.index)
        self._trace_plan = traces.TracePlan(job.trace_every)
        self.exchanged = Exchanged()
        self._step_exchanges = Exchanged()
        """What one step exchanges, by the sizes of its tensors."""
        server = start_server(context)
        self._graph = tf1.Graph()
        with self._graph.as_default():
            self._build()
        self._graph.finalize()
        self._session = Session(server.target, self._graph, job.threads, job.index)
        self._run = self._session.make_callable(self._fetches, [*self._inputs, self._target])
        self._set_up(InitialState(context))
        if job.evaluates:
            self._predictor = LocalPredictor(self._model, job.threads)
        # The graph of one worker has its own copy of the model only: TensorBoard shows those of all workers.
        context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(self._graph))

    # ---- implemented by the subclasses ----

    def _build_step(self, gradients: list[Any], loss: Any) -> list[Any]:
        """Build the ops that apply this worker's gradients, which are on the servers; returns the tensors that a step
        fetches."""
        raise NotImplementedError

    def _initializers(self) -> list[Any]:
        """The ops that initialise the counter and the optimizer's state; the subclass may add others."""
        return [self._counter.initializer, *slot_initializers(self._slots)]

    def _step_result(self, fetched: list[NDArray[Any]]) -> Step:
        """The result of a step, from what it fetched."""
        raise NotImplementedError

    # ---- the contract of a strategy ----

    def start(self) -> int:
        return self._first_update

    def step(self, batch: Batch) -> Step:
        self.exchanged.sent += self._step_exchanges.sent
        self.exchanged.received += self._step_exchanges.received
        if self._trace_plan.due(self._recorder.current.step):
            return self._run_traced_step(batch)
        start = clock_ns()
        try:
            fetched = self._run(*batch.inputs, batch.target)
        finally:
            # Recorded also if the server rejects the step because the run is over: it took time as well.
            record = self._recorder.current
            record.fused_start_ns, record.fused_end_ns = start, clock_ns()
        return self._step_result(fetched)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        if chief_wants_stop:
            self._session.run(self._stop)
        return chief_wants_stop

    def finish(self) -> None:
        with self._recorder.wait:
            self._session.run(self._await_done if self._job.is_chief else self._send_done)

    def predictor(self) -> Predictor:
        self.exchanged.received += 4 * self._model.size
        return self._predictor.with_values(self._session.run(self._read))

    def parameters(self) -> Parameters:
        return by_name(self._shapes, self._session.run(self._read))

    def state(self, update: int) -> TrainingState:
        update, values, slots = self._session.run([self._counter, self._read, self._slots])
        return TrainingState(int(update), by_name(self._shapes, values), named_state(self._shapes, slots))

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        sizes: dict[str, dict[str, int]] = {task: {} for task in task_names(SERVER, self._job.servers)}
        for shape, server in zip(self._shapes, self._parameter_servers, strict=True):
            sizes[task_name(SERVER, server)][shape.name] = shape.size
        return sizes

    def close(self) -> None:
        self._session.close()

    # ---- building the graph ----

    def _build(self) -> None:
        self._build_variables()
        with tf.device(self._worker_device):
            self._inputs = network.placeholders(self._model.feeds)
            self._target = network.target_placeholder(self._model.target)
        if self._model.by_rows:
            self._step_exchanges.sent += self._model.blank(self._job.batch).inputs[0].nbytes
        pulled = self._pull()
        with tf.device(self._worker_device), tf.name_scope("compute"):
            loss = network.mean_loss(self._model, self._inputs, self._target, pulled)
            # A parameter that the user's model does not use has no gradient: use zeros.
            slices_or_tensors = tf.gradients(loss, pulled, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            gradients = [tf.convert_to_tensor(gradient) for gradient in slices_or_tensors]
            gradients = self._before_push(gradients)
        self._fetches = self._build_step(self._push(gradients), loss)
        self._build_token_queues()

    def _build_variables(self) -> None:
        self._variables, self._initial_values = [], []
        for shape, server in zip(self._shapes, self._parameter_servers, strict=True):
            name = shape.name.replace(".", "_")
            with tf.device(ps_device(server)):
                self._variables.append(
                    tf1.get_variable(name, shape.shape, tf.float32, tf1.zeros_initializer(), use_resource=True)
                )
                self._initial_values.append(tf1.placeholder(tf.float32, shape.shape, name=f"first/{name}"))
        self._read = [variable.read_value() for variable in self._variables]
        with tf.device(ps_device(0)):
            self._counter = tf1.get_variable(
                "updates", [], tf.int64, tf1.zeros_initializer(), trainable=False, use_resource=True
            )
        self._slots = graph_slots(self._job.optimizer, self._variables)
        self._updater = Updater(self._job.optimizer, self._shapes, self._variables, self._slots)

    def _pull(self) -> list[Any]:
        """The parameters on this worker."""
        return self._transfer(self._read_on_servers(), to_worker=True)

    def _read_on_servers(self) -> list[Any]:
        """The current value of each parameter on its server; of a sparse one, only the rows that the batch uses."""
        return [self._read_parameter(number) for number in range(len(self._variables))]

    def _read_parameter(self, number: int) -> Any:
        variable = self._variables[number]
        # `read_value` adds an identity op, which is on the worker by default: the value would be sent there, and back.
        with tf.device(ps_device(self._parameter_servers[number])):
            if number == 0 and self._model.by_rows:
                indices = self._row_indices()
                rows = tf.raw_ops.ResourceGather(resource=variable.handle, indices=indices, dtype=tf.float32)
                rows.set_shape([self._job.batch, self._model.by_rows.nonzeros])
                return rows
            return variable.read_value()

    def _row_indices(self) -> Any:
        """The indices of the rows that the batch uses, on the current device."""
        return tf.identity(self._inputs[0], name="rows")

    def _before_push(self, gradients: list[Any]) -> list[Any]:
        """What is pushed instead of the gradients."""
        return gradients

    def _push(self, gradients: list[Any]) -> list[Any]:
        """The gradients on the servers of their parameters."""
        return self._transfer(gradients, to_worker=False)

    def _transfer(self, tensors: list[Any], *, to_worker: bool) -> list[Any]:
        """Transfer parameters to this worker, or gradients to the servers of their parameters."""
        size = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in tensors)
        if to_worker:
            self._step_exchanges.received += size
        else:
            self._step_exchanges.sent += size
        transferred: list[Any] = [None] * len(tensors)
        for server in sorted(set(self._parameter_servers)):
            on_server = [i for i, number in enumerate(self._parameter_servers) if number == server]
            source, target = ps_device(server), self._worker_device
            if not to_worker:
                source, target = target, source
            name = f"{'pull' if to_worker else 'push'}/{server}"
            received = transfer_tensors([tensors[i] for i in on_server], source, target, name)
            for i, tensor in zip(on_server, received, strict=True):
                transferred[i] = tensor
        return transferred

    def _build_token_queues(self) -> None:
        """Build the token queues that tell the chief when all other workers are set up and when they are done."""
        others = self._job.workers - 1
        with tf.device(ps_device(0)):
            names = ("ready", "done")
            ready, done = (tf1.FIFOQueue(-1, tf.int64, [()], shared_name=name, name=name) for name in names)
            self._send_ready, self._await_ready = ready.enqueue(0), ready.dequeue_many(others).op
            self._send_done, self._await_done = done.enqueue(0), done.dequeue_many(others).op
            pairs = zip(self._variables, self._initial_values, strict=True)
            assigns = [variable.assign(initial).op for variable, initial in pairs]
            self._initialize = tf.group(*assigns, *self._initializers())

    def _set_up(self, initial: InitialState) -> None:
        """Make TensorFlow prepare the graph before the training clock starts; then the chief sets the initial values.

        For this, a step is run while the variables are not initialised yet. It fails, but only after TensorFlow has
        partitioned and optimised the graph and registered it on every server, and before any gradient can be applied.
        """
        self._first_update = initial.update
        blank = self._model.blank(self._job.batch)
        # For a variable that is not initialised, reading raises FailedPreconditionError, gathering rows NotFoundError.
        with suppress(tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            self._run(*blank.inputs, blank.target)
        if not self._job.is_chief:
            self._session.run(self._send_ready)
            return
        self._session.run(self._await_ready)
        values = views(initial.values(), self._shapes).values()
        self._session.run(self._initialize, dict(zip(self._initial_values, values, strict=True)))
        self._restore(initial)

    def _restore(self, initial: InitialState) -> None:
        """Restore what a checkpoint contains besides the values: the number of updates and the optimizer's state."""
        if initial.update:
            self._session.run(*assignment(self._counter, initial.update))
        restore_slots(self._session.run, self._slots, self._shapes, initial)

    def _run_traced_step(self, batch: Batch) -> Step:
        """Run a step with TensorFlow's tracing, and record the phases found in the trace.

        Tracing makes the step slower, so it is flagged and does not count for the pace of the run.
        """
        recorder, metadata = self._recorder, tf1.RunMetadata()
        recorder.current.flags = TRACED
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        feed = dict(zip((*self._inputs, self._target), (*batch.inputs, batch.target), strict=True))
        start = clock_ns()
        fetched = self._session.run(self._fetches, feed, options, metadata)
        for phase, seconds in traces.split_phases(traces.events_from_metadata(metadata)).items():
            recorder.write(RecordKind[phase.upper()], start, int(seconds * 1e9))
        return self._step_result(fetched)


def _assign_servers(sizes: list[int], servers: int) -> list[int]:
    """A server for each parameter. Greedy: the largest parameter first, each to the server with the lowest load."""
    load, assigned = [0] * servers, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        assigned[i] = load.index(min(load))
        load[assigned[i]] += sizes[i]
    return assigned
