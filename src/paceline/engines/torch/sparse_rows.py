"""Workers for models over sparse features: only the weights that a batch uses are read, transferred and updated.

A row is one weight; the bias is the last row. An index that occurs several times in a batch is sent several times:
finding the distinct ones would cost more than it saves. The gradient is computed by explicit formulas: there is one
layer and one loss, and recording them for autograd would take longer than computing them.
"""

import numpy as np
import torch
from torch.nn import functional

from paceline.data.batches import Array, Batch
from paceline.engines.torch.threads import warm_up
from paceline.paramserver.buckets import cut_buckets, shard_sizes
from paceline.paramserver.norm_exchange import adds_up_norms
from paceline.paramserver.row_buffers import Indices, WorkerRowBuffers
from paceline.paramserver.row_client import RowClient
from paceline.paramserver.state import pull_state
from paceline.paramserver.transports.connections import ServerConnections
from paceline.paramserver.transports.shared_memory import SEGMENT
from paceline.paramserver.wire import Op, Request
from paceline.recording.recorder import clock_ns
from paceline.train.block_optimizer import BlockOptimizer, clip_scale, sections_of
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Predictor, SingleWorker, Step
from paceline.workloads.layers import SparseLinear
from paceline.workloads.parameters import Parameters, Vector, views


class RowModel:
    """The model's outputs and gradient as functions of the rows that a batch uses."""

    def __init__(self, layer: SparseLinear, batch: int) -> None:
        self._bias = layer.features
        self._indices = np.empty(layer.rows(batch), np.int32)

    def indices(self, features: Array) -> Indices:
        """The indices of the rows that a batch needs; the next call may overwrite the array."""
        count = features.size + 1
        indices = self._indices if count == self._indices.size else np.empty(count, np.int32)
        indices[:-1] = features.reshape(-1)
        indices[-1] = self._bias
        return indices

    def outputs(self, rows: Vector, values: Array) -> torch.Tensor:
        """One output per example; `rows` are the weights of its features, then the bias."""
        tensor = torch.from_numpy(rows)
        return (tensor[:-1].view(values.shape) * torch.from_numpy(values)).sum(1).add_(tensor[-1])

    def differentiate(self, rows: Vector, batch: Batch) -> tuple[float, Vector]:
        """The loss of a batch, and its gradient with one value per row."""
        with torch.inference_mode():
            outputs, labels = self.outputs(rows, batch.inputs[1]), torch.from_numpy(batch.target).float()
            loss = functional.binary_cross_entropy_with_logits(outputs, labels)
            output_gradient = torch.sigmoid(outputs).sub_(labels).div_(len(labels))
            gradient = torch.empty(rows.size)
            torch.mul(
                torch.from_numpy(batch.inputs[1]),
                output_gradient[:, None],
                out=gradient[:-1].view(-1, batch.inputs[1].shape[1]),
            )
            gradient[-1] = output_gradient.sum()
        return loss.item(), gradient.numpy()

    def predict(self, rows: Vector, values: Array) -> Array:
        """The outputs as an array with one column."""
        with torch.inference_mode():
            predictions: Array = self.outputs(rows, values).unsqueeze(1).numpy()
            return predictions


def _clipped_rows(indices: Indices, gradient: Vector, clip: float) -> Vector:
    """The gradient, scaled down to the norm `clip` if it has a larger one; an index may occur several times."""
    _, inverse = np.unique(indices, return_inverse=True)
    sums = np.bincount(inverse, gradient)
    return gradient * np.float32(clip_scale(clip, float(np.dot(sums, sums))))


class SingleRows(SingleWorker):
    """A single worker that stores all weights itself."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        assert model.by_rows
        self._recorder, self._shapes = context.recorder, model.parameters
        self._model = RowModel(model.by_rows, job.batch)
        initial = InitialState(context)
        self._vector = initial.values()
        self._optimizer = BlockOptimizer(
            self._vector,
            job.optimizer,
            sections=sections_of(job.optimizer, model.parameters),
            state=initial.optimizer_state(),
        )
        blank = model.blank(job.batch)
        rows = self._vector[self._model.indices(blank.inputs[0])]
        warm_up(context, lambda: self._model.differentiate(rows, blank))
        self._updates = initial.update

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        indices = self._model.indices(batch.inputs[0])
        loss, gradient = self._model.differentiate(self._vector[indices], batch)
        self._optimizer.step_rows([(indices, gradient)], self._updates)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, clock_ns()
        self._updates += 1
        return Step(loss, self._updates)

    def predictor(self) -> Predictor:
        return lambda features, values: self._model.predict(self._vector[self._model.indices(features)], values)

    def parameters(self) -> Parameters:
        return views(self._vector, self._shapes)

    def state(self, update: int) -> TrainingState:
        stored = {name: views(vector, self._shapes) for name, vector in self._optimizer.state.items()}
        return TrainingState(update, self.parameters(), stored)


class RowsWorker:
    """A worker of the parameter-server strategies. The reply to a push carries the rows that the next step needs, so a
    step is one round trip."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        assert model.by_rows
        self._job, self._recorder, self._model_spec = job, context.recorder, model
        self._model = RowModel(model.by_rows, job.batch)
        blank = model.blank(job.batch)
        rows = np.zeros(self._model.indices(blank.inputs[0]).size, np.float32)
        warm_up(context, lambda: self._model.differentiate(rows, blank))
        buffers = WorkerRowBuffers(job.servers, model.by_rows.rows(job.batch), shared=job.transport == "memory")
        peers = context.rendezvous.exchange_addresses({SEGMENT: buffers.path} if buffers.path else {})
        self._connections = ServerConnections(context, peers)
        self._client = RowClient(self._connections, buffers, model.size, adds_up_norms=adds_up_norms(job))
        self._rows: Vector | None = None
        """The rows of the next step, if the last push already returned them."""
        self._upcoming = blank
        self._clip = None if job.synchronous else job.optimizer.clip
        """The largest norm of this worker's own gradient; in a synchronous run the server clips the mean."""
        self._segment_path = buffers.path or ""

    @property
    def exchanged(self) -> Exchanged:
        return self._client.exchanged

    def start(self) -> int | None:
        with self._recorder.pull:
            path = self._segment_path.encode()
            replies = [connection.request(Request(Op.START), path) for connection in self._connections]
        updates = self._client.start(replies)
        return updates if all(reply.permit for reply in replies) else None

    def prefetch(self, upcoming: Batch) -> None:
        self._upcoming = upcoming

    def step(self, batch: Batch) -> Step:
        record, rows = self._recorder.current, self._rows
        start = clock_ns()
        if rows is None:
            rows = self._client.pull(self._model.indices(batch.inputs[0]))
            pulled = clock_ns()
            record.pull_start_ns, record.pull_end_ns = start, pulled
            start = pulled
        loss, gradient = self._model.differentiate(rows, batch)
        if self._clip:
            gradient = _clipped_rows(self._model.indices(batch.inputs[0]), gradient, self._clip)
        next_indices = self._model.indices(self._upcoming.inputs[0])
        computed = clock_ns()
        replies, self._rows = self._client.push(gradient, next_indices)
        end = clock_ns()
        # The time for which the server delayed its reply for slower workers counts as waiting, not as transfer.
        waited = max(reply.waited_ns for reply in replies)
        pushing = min(end, computed + waited)
        record.compute_start_ns, record.compute_end_ns = start, computed
        if waited:
            record.wait_start_ns, record.wait_end_ns = computed, pushing
        record.push_start_ns, record.push_end_ns = pushing, end
        staleness = max(reply.staleness for reply in replies)
        return Step(loss, replies[0].update, staleness, all(reply.permit for reply in replies), replies[0].applied)

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        if chief_wants_stop:
            for connection in self._connections:
                connection.request(Request(Op.STOP))
        return chief_wants_stop

    def finish(self) -> None:
        if self._job.is_chief:
            with self._recorder.wait:
                for connection in self._connections:
                    connection.request(Request(Op.AWAIT_DONE))
            return
        self._send_done()

    def predictor(self) -> Predictor:
        self._rows = None  # Predicting overwrites the rows that were returned for the next step.
        return self._predict

    def parameters(self) -> Parameters:
        vector = np.empty(self._model_spec.size, np.float32)
        for buckets in cut_buckets(vector.size, len(self._connections)):
            for bucket in buckets:
                connection = self._connections[bucket.server]
                connection.send(Request(Op.PULL, bucket=bucket.number))
                vector[bucket.in_model] = np.frombuffer(connection.receive()[1], np.float32)
        return views(vector, self._model_spec.parameters)

    def state(self, update: int) -> TrainingState:
        names, shapes = self._job.optimizer.state_names, self._model_spec.parameters
        if not names:
            return TrainingState(update, self.parameters())
        self._rows = None  # The replies overwrite the rows that were returned for the next step.
        by_server = cut_buckets(self._model_spec.size, len(self._connections))
        return pull_state(
            self._connections, [bucket for buckets in by_server for bucket in buckets], shapes, names, update
        )

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        return shard_sizes(self._model_spec.parameters, self._job.servers)

    def close(self) -> None:
        if self._job.is_chief:
            self._send_done()
        self._connections.close()

    def abandon(self) -> None:
        self._connections.abandon()

    def _send_done(self) -> None:
        for connection in self._connections:
            connection.send(Request(Op.DONE))

    def _predict(self, features: Array, values: Array) -> Array:
        """Predict in pieces of at most one batch: a server rejects larger requests."""
        starts = range(0, len(features), self._job.batch)
        pieces = [slice(start, start + self._job.batch) for start in starts]
        return np.concatenate(
            [
                self._model.predict(self._client.pull(self._model.indices(features[piece])), values[piece])
                for piece in pieces
            ]
        )
