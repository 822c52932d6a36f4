"""A worker of the parameter-server strategies; ps-sync and ps-async differ only in when the server replies."""

from collections.abc import Callable

import torch

from paceline.data.batches import Batch
from paceline.engines.torch.network import Network
from paceline.paramserver.buckets import BucketIndices, buckets_by_parameter, cut_buckets, shard_sizes
from paceline.paramserver.compressed_transfer import CompressedWorkerTransfer
from paceline.paramserver.norm_exchange import add_up_norms, adds_up_norms
from paceline.paramserver.state import pull_state
from paceline.paramserver.transfer import WorkerTransfer
from paceline.paramserver.transports.connections import ServerConnections
from paceline.paramserver.transports.shared_memory import SEGMENT
from paceline.paramserver.wire import Buffer, Op, Reply, Request
from paceline.recording.recorder import clock_ns
from paceline.train.block_optimizer import clip_vector
from paceline.train.checkpoint import TrainingState
from paceline.train.compression import compression_of
from paceline.train.context import TaskContext
from paceline.train.strategy import Exchanged, Predictor, Step
from paceline.workloads.parameters import Parameters, Vector


class ParameterServerWorker:
    """Pushes the gradients of a step to the servers in buckets; the reply to each bucket carries its new values."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        self._job, self._recorder, self._shapes = job, context.recorder, model.parameters
        compression = compression_of(job)
        self._transfer = (
            CompressedWorkerTransfer(job, model.parameters, compression)
            if compression
            else WorkerTransfer(job, model.size)
        )
        peers = context.rendezvous.exchange_addresses(self._transfer.address)
        self._transfer.map_peers(peers)
        self._network = Network(model, self._transfer.values)
        self._connections = ServerConnections(context, peers)
        self._buckets_by_server = cut_buckets(model.size, job.servers)
        self._buckets = [bucket for buckets in self._buckets_by_server for bucket in buckets]
        bucket_indices = buckets_by_parameter(self._buckets, model.parameters)
        # A worker that clips its own gradient needs all of it before it can push a part.
        clips = bool(job.optimizer.clip) and not job.synchronous
        at_the_end = clips or len(self._buckets) == job.servers
        self._pusher = (_PushAfterBackward if at_the_end else _PushDuringBackward)(
            self._network, self._transfer.gradient, bucket_indices, self._push
        )
        self._clip = job.optimizer.clip if clips else None
        self._adds_up_norms = adds_up_norms(job)
        self._network.warm_up(context, model.blank(job.batch))
        self._versions = [0] * job.servers
        """For each server, the update count of the values that it returned last."""

    @property
    def exchanged(self) -> Exchanged:
        return self._transfer.exchanged

    def start(self) -> int | None:
        with self._recorder.pull:
            path = self._transfer.address.get(SEGMENT, "").encode()
            replies = [connection.request(Request(Op.START), path) for connection in self._connections]
            self._pull()
        # A worker that was killed between two pushes finds the servers at different updates when it is restarted.
        updates = min(reply.update for reply in replies)
        self._versions = [updates] * self._job.servers
        return updates if all(reply.permit for reply in replies) else None

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        self._pusher.begin()
        loss = self._network.differentiate(batch)
        if self._clip:
            clip_vector(self._transfer.gradient, self._clip)
        computed = clock_ns()
        self._pusher.finish()
        if self._adds_up_norms:
            add_up_norms(self._connections)
        pushed = clock_ns()
        replies = self._receive_replies(self._transfer.store_reply)
        end = clock_ns()
        # The time for which the server delayed its reply for slower workers counts as waiting, not as transfer.
        waited = max(reply.waited_ns for reply in replies)
        answered = min(end, pushed + waited)
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = computed, pushed
        if waited:
            record.wait_start_ns, record.wait_end_ns = pushed, answered
        record.pull_start_ns, record.pull_end_ns = answered, end
        return Step(
            loss,
            self._versions[0],
            max(reply.staleness for reply in replies),
            all(reply.permit for reply in replies),
            all(reply.applied for reply in replies),
        )

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        if chief_wants_stop:
            self._request_all(Op.STOP)
        return chief_wants_stop

    def finish(self) -> None:
        if self._job.is_chief:
            with self._recorder.wait:
                self._request_all(Op.AWAIT_DONE)
            self._pull()
        for connection in self._connections:
            connection.send(Request(Op.DONE))

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def snapshot_next_update(self) -> None:
        if self._job.optimizer.state_names:
            for connection in self._connections:
                connection.send(Request(Op.SNAPSHOT))

    def state(self, update: int) -> TrainingState:
        """Values and optimizer state of each bucket belong to the same update; in ps-sync, those of all buckets do."""
        if not self._job.optimizer.state_names:
            return TrainingState(update, self.parameters())
        return pull_state(self._connections, self._buckets, self._shapes, self._job.optimizer.state_names, update)

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        return shard_sizes(self._shapes, self._job.servers)

    def close(self) -> None:
        self._connections.close()

    def abandon(self) -> None:
        self._connections.abandon()

    def _pull(self) -> None:
        """Pull all values."""
        for bucket in self._buckets:
            self._connections[bucket.server].send(Request(Op.PULL, bucket=bucket.number))
        self._receive_replies(self._transfer.store_pulled)

    def _push(self, index: int) -> None:
        bucket = self._buckets[index]
        request = Request(Op.PUSH, self._versions[bucket.server], bucket.number)
        self._connections[bucket.server].send(request, self._transfer.push_payload(bucket.in_model))

    def _receive_replies(self, store: Callable[[slice, Buffer], None]) -> list[Reply]:
        """Receive one reply for every bucket, and store the values that it carries."""
        replies = []
        for server, (connection, buckets) in enumerate(zip(self._connections, self._buckets_by_server, strict=True)):
            for _ in buckets:
                reply, payload = connection.receive()
                store(buckets[reply.bucket].in_model, payload)
                replies.append(reply)
                self._versions[server] = max(self._versions[server], reply.update)
        return replies

    def _request_all(self, op: Op) -> None:
        """Send a request to all servers, and wait for all replies."""
        for connection in self._connections:
            connection.send(Request(op))
        for connection in self._connections:
            connection.receive()


class _PushAfterBackward:
    """For a small model: pushing during the backward pass would cost more than it gains."""

    def __init__(
        self, network: Network, gradient: Vector, bucket_indices: BucketIndices, push: Callable[[int], None]
    ) -> None:
        network.accumulate_gradients_in(gradient)
        self._push = push
        self._buckets = range(1 + max(map(max, bucket_indices)))

    def begin(self) -> None:
        """Do nothing: there is nothing to prepare before the backward pass."""

    def finish(self) -> None:
        """Push all buckets."""
        for index in self._buckets:
            self._push(index)


class _PushDuringBackward:
    """For a large model: each bucket is pushed as soon as the backward pass has computed all of its gradients."""

    def __init__(
        self, network: Network, gradient: Vector, bucket_indices: BucketIndices, push: Callable[[int], None]
    ) -> None:
        self._push = push
        buckets = range(1 + max(map(max, bucket_indices)))
        self._parameter_counts = [sum(index in indices for indices in bucket_indices) for index in buckets]
        """For each bucket, how many parameters have values in it."""
        self._missing: list[int] = []
        """For each bucket, how many of these parameters have no gradient yet in this step."""
        self._gradient_views, self._has_gradient = network.tensor_views(gradient), [False] * len(bucket_indices)
        written_directly = network.redirect_gradients(self._gradient_views)
        # The autograd nodes that accumulate the gradients. They exist only while something refers to them.
        self._nodes = [tensor.view_as(tensor).grad_fn.next_functions[0][0] for tensor in network.tensors]
        for number, node in enumerate(self._nodes):
            hook = self._make_hook(
                number, network.tensors[number], bucket_indices[number], copy=not written_directly[number]
            )
            node.register_hook(hook)

    def begin(self) -> None:
        """Prepare for a backward pass."""
        self._missing = list(self._parameter_counts)
        self._has_gradient = [False] * len(self._has_gradient)

    def finish(self) -> None:
        """Push the remaining buckets. A parameter that the user's module did not use has no gradient: push zeros for
        it, not the gradient of the step before."""
        for view, has_gradient in zip(self._gradient_views, self._has_gradient, strict=True):
            if not has_gradient:
                view.zero_()
        for index, missing in enumerate(self._missing):
            if missing:
                self._push(index)
        self._missing = []

    def _make_hook(
        self, number: int, tensor: torch.Tensor, bucket_indices: list[int], *, copy: bool
    ) -> Callable[..., None]:
        """The function that autograd calls when the gradient of a parameter is complete.

        `copy` says that the gradient is in `tensor.grad` and must be copied to the vector of gradients.
        """
        view = self._gradient_views[number]

        def on_gradient(*_: object) -> None:
            if copy:
                if tensor.grad is None:
                    return
                # Copying is cheaper than letting autograd accumulate into the vector, which would first have to be set
                # to zero and then be read and written.
                view.copy_(tensor.grad)
                tensor.grad = None
            self._has_gradient[number] = True
            if not self._missing:
                return
            for bucket in bucket_indices:
                self._missing[bucket] -= 1
                if not self._missing[bucket]:
                    self._push(bucket)

        return on_gradient
