"""Models over sparse features: only the weights that a batch touches are looked at, moved and changed.

A row is one weight; the bias is the last. An index that comes up several times in a batch is sent as often: to find
the distinct ones would cost more than it saves. The gradient is written out: there is one layer and one loss, and
recording them for autograd would take longer than computing them.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from paceline.data.batches import Array, Batch
from paceline.paramserver.buckets import cut, shard_sizes
from paceline.paramserver.row_buffers import Indices, WorkerRowBuffers
from paceline.paramserver.sgd import BlockSgd
from paceline.paramserver.transports.connection import ServerConnection
from paceline.paramserver.transports.connections import ServerConnections
from paceline.paramserver.transports.shared_memory import SEGMENT
from paceline.paramserver.wire import Buffer, Op, Reply, Request
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState, TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, SingleWorker, Step
from paceline.workloads.layers import SparseLinear
from paceline.workloads.parameters import Parameters, Vector, shards, views


class RowModel:
    """The model as a function of the rows of a batch."""

    def __init__(self, layer: SparseLinear, batch: int) -> None:
        self._bias = layer.features
        self._indices = np.empty(layer.rows(batch), np.int32)

    def indices(self, features: Array) -> Indices:
        """Which rows a batch needs; the array is used again for the next."""
        count = features.size + 1
        found = self._indices if count == self._indices.size else np.empty(count, np.int32)
        found[:-1] = features.reshape(-1)
        found[-1] = self._bias
        return found

    def outputs(self, rows: Vector, values: Array) -> torch.Tensor:
        tensor = torch.from_numpy(rows)
        return (tensor[:-1].view(values.shape) * torch.from_numpy(values)).sum(1).add_(tensor[-1])

    def differentiate(self, rows: Vector, batch: Batch) -> tuple[float, Vector]:
        """The loss of a batch, and its gradient row by row."""
        with torch.inference_mode():
            outputs, labels = self.outputs(rows, batch.inputs[1]), torch.from_numpy(batch.target).float()
            loss = functional.binary_cross_entropy_with_logits(outputs, labels)
            by_output = torch.sigmoid(outputs).sub_(labels).div_(len(labels))
            gradient = torch.empty(rows.size)
            torch.mul(
                torch.from_numpy(batch.inputs[1]),
                by_output[:, None],
                out=gradient[:-1].view(-1, batch.inputs[1].shape[1]),
            )
            gradient[-1] = by_output.sum()
        return loss.item(), gradient.numpy()

    def predict(self, rows: Vector, values: Array) -> Array:
        with torch.inference_mode():
            found: Array = self.outputs(rows, values).unsqueeze(1).numpy()
            return found


class SingleRows(SingleWorker):
    """One worker that has all the weights."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        assert model.by_rows
        self._recorder, self._shapes = context.recorder, model.parameters
        self._model = RowModel(model.by_rows, job.batch)
        beginning = InitialState(context)
        self._vector = beginning.values()
        self._descent = BlockSgd(self._vector, job.lr)
        blank = model.blank(job.batch)
        self._model.differentiate(self._vector[self._model.indices(blank.inputs[0])], blank)
        self._updates = beginning.update

    def start(self) -> int:
        return self._updates

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        indices = self._model.indices(batch.inputs[0])
        loss, gradient = self._model.differentiate(self._vector[indices], batch)
        self._descent.step_rows([(indices, gradient)])
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, clock_ns()
        self._updates += 1
        return Step(loss, self._updates)

    def predictor(self) -> Predictor:
        return lambda features, values: self._model.predict(self._vector[self._model.indices(features)], values)

    def parameters(self) -> Parameters:
        return views(self._vector, self._shapes)

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, self.parameters())


class RowServers:
    """All servers as one: rows are asked of whoever has them."""

    def __init__(self, links: list[ServerConnection], lanes: WorkerRowBuffers, size: int) -> None:
        self._links, self._lanes, self._parts = links, lanes, shards(size, len(links))
        self._shares: list[Array] = []
        """For each server, where among the rows pulled last its own are."""
        self._versions = [0] * len(links)
        """For each server, the update that the rows it gave belong to."""

    def begin(self, replies: Sequence[Reply]) -> int:
        """The updates so far. One who comes back finds servers at different updates if it went between two pushes."""
        updates = min(reply.update for reply in replies)
        self._versions = [updates] * len(self._links)
        return updates

    def pull(self, wanted: Indices) -> Vector:
        """Rows as they are now; overwritten by the next."""
        self._shares = self._cut(wanted)
        for server, indices in enumerate(self._to_each(wanted)):
            payload = self._lanes.ask(server, indices)
            self._links[server].send(Request(Op.PULL_ROWS, bucket=indices.size), payload)
        return self._answers(wanted.size)[1]

    def push(self, gradient: Vector, wanted: Indices) -> tuple[list[Reply], Vector]:
        """Gradients for the rows pulled last, and which rows are wanted next; the answers, and these rows."""
        given = [gradient] if self._alone else [gradient[share] for share in self._shares]
        self._shares = self._cut(wanted)
        for server, indices in enumerate(self._to_each(wanted)):
            payload = self._lanes.give(server, given[server], indices)
            self._links[server].send(Request(Op.PUSH_ROWS, self._versions[server], indices.size), payload)
        return self._answers(wanted.size)

    @property
    def _alone(self) -> bool:
        return len(self._links) == 1

    def _cut(self, wanted: Indices) -> list[Array]:
        if self._alone:
            return []
        return [np.flatnonzero((wanted >= part.start) & (wanted < part.stop)) for part in self._parts]

    def _to_each(self, wanted: Indices) -> list[Indices]:
        """What is wanted of each server, counted from where its part begins."""
        if self._alone:
            return [wanted]
        pairs = zip(self._shares, self._parts, strict=True)
        return [wanted[share] - np.int32(part.start) for share, part in pairs]

    def _answers(self, count: int) -> tuple[list[Reply], Vector]:
        if self._alone:
            reply, payload = self._receive(0)
            return [reply], self._lanes.take(0, count, payload)
        found, replies = np.zeros(count, np.float32), []
        for server, share in enumerate(self._shares):
            reply, payload = self._receive(server)
            rows = self._lanes.take(server, share.size, payload)
            if rows.size:  # None come with an answer that only says that the run is over.
                found[share] = rows
            replies.append(reply)
        return replies, found

    def _receive(self, server: int) -> tuple[Reply, Buffer]:
        reply, payload = self._links[server].receive()
        self._versions[server] = reply.update
        return reply, payload


class RowsWorker:
    """A worker of the parameter-server strategies. A push brings back what the next step needs: one way there and
    back a step."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        assert model.by_rows
        self._job, self._recorder, self._model_spec = job, context.recorder, model
        self._model = RowModel(model.by_rows, job.batch)
        blank = model.blank(job.batch)
        rows = self._model.indices(blank.inputs[0])
        self._model.differentiate(np.zeros(rows.size, np.float32), blank)
        lanes = WorkerRowBuffers(job.servers, model.by_rows.rows(job.batch), shared=job.transport == "memory")
        peers = context.rendezvous.meet({SEGMENT: lanes.path} if lanes.path else {})
        self._links = ServerConnections(context, peers)
        self._servers = RowServers(self._links, lanes, model.size)
        self._rows: Vector | None = None
        """What the next step needs, if it is there already."""
        self._upcoming = blank
        self._path = lanes.path or ""

    def start(self) -> int | None:
        with self._recorder.pull:
            replies = [link.ask(Request(Op.START), self._path.encode()) for link in self._links]
        updates = self._servers.begin(replies)
        return updates if all(reply.more for reply in replies) else None

    def expect(self, upcoming: Batch) -> None:
        self._upcoming = upcoming

    def step(self, batch: Batch) -> Step:
        record, rows = self._recorder.current, self._rows
        start = clock_ns()
        if rows is None:
            rows = self._servers.pull(self._model.indices(batch.inputs[0]))
            pulled = clock_ns()
            record.pull_start_ns, record.pull_end_ns = start, pulled
            start = pulled
        loss, gradient = self._model.differentiate(rows, batch)
        wanted = self._model.indices(self._upcoming.inputs[0])
        computed = clock_ns()
        replies, self._rows = self._servers.push(gradient, wanted)
        end = clock_ns()
        # What the server held back for slower workers is waiting, not transfer.
        pushing = min(end, computed + max(reply.waited_ns for reply in replies))
        record.compute_start_ns, record.compute_end_ns = start, computed
        if self._job.synchronous:
            record.wait_start_ns, record.wait_end_ns = computed, pushing
        record.push_start_ns, record.push_end_ns = pushing, end
        staleness = max(reply.staleness for reply in replies)
        return Step(loss, replies[0].update, staleness, all(r.more for r in replies), replies[0].applied)

    def stop_now(self, mine: bool, update: int) -> bool:
        if mine:
            for link in self._links:
                link.ask(Request(Op.STOP))
        return mine

    def finish(self) -> None:
        if self._job.is_chief:
            with self._recorder.wait:
                for link in self._links:
                    link.ask(Request(Op.FINAL))
            return
        self._leave()

    def predictor(self) -> Predictor:
        self._rows = None  # Those for the next step make way for others.
        return self._predict

    def parameters(self) -> Parameters:
        vector = np.empty(self._model_spec.size, np.float32)
        for buckets in cut(vector.size, len(self._links)):
            for bucket in buckets:
                link = self._links[bucket.server]
                link.send(Request(Op.PULL, bucket=bucket.number))
                vector[bucket.part] = np.frombuffer(link.receive()[1], np.float32)
        return views(vector, self._model_spec.parameters)

    def state(self, update: int) -> TrainingState:
        return TrainingState(update, self.parameters())

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        return shard_sizes(self._model_spec.parameters, self._job.servers)

    def close(self) -> None:
        if self._job.is_chief:
            self._leave()
        self._links.close()

    def abandon(self) -> None:
        self._links.abandon()

    def _leave(self) -> None:
        for link in self._links:
            link.send(Request(Op.LEAVE))

    def _predict(self, features: Array, values: Array) -> Array:
        """In pieces no larger than a step's: a server takes no larger request."""
        pieces = range(0, len(features), self._job.batch)
        cuts = [slice(start, start + self._job.batch) for start in pieces]
        return np.concatenate(
            [
                self._model.predict(self._servers.pull(self._model.indices(features[cut_])), values[cut_])
                for cut_ in cuts
            ]
        )
