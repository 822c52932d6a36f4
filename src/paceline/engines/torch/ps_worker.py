"""A worker of the parameter-server strategies. Sync and async differ only in when the server answers."""

from collections.abc import Callable

import numpy as np
import torch

from paceline.data.batches import Batch
from paceline.engines.torch.network import Network
from paceline.paramserver.buckets import Touched, cut, shard_sizes, touched_by
from paceline.paramserver.transfer import WorkerTransfer
from paceline.paramserver.transports.connections import ServerConnections
from paceline.paramserver.transports.shared_memory import SEGMENT
from paceline.paramserver.wire import Op, Reply, Request
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import TrainingState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, Step
from paceline.workloads.parameters import Parameters, Vector


class ParameterServerWorker:
    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        self._job, self._recorder, self._shapes = job, context.recorder, model.parameters
        self._side = WorkerTransfer(job, model.size)
        peers = context.rendezvous.meet(self._side.address)
        self._side.meet(peers)
        self._network = Network(model, self._side.values)
        self._links = ServerConnections(context, peers)
        self._buckets = cut(model.size, job.servers)
        self._all = [bucket for buckets in self._buckets for bucket in buckets]
        self._pushes = (_PushAtTheEnd if len(self._all) == job.servers else _PushOnTheWay)(
            self._network, self._side.gradient, touched_by(self._all, model.parameters), self._push
        )
        # Computed once, so that lazy set-up is over before the clock starts.
        self._network.differentiate(model.blank(job.batch))
        self._versions = [0] * job.servers
        """For each server, the update that the values it gave belong to."""

    def start(self) -> int | None:
        with self._recorder.pull:
            where = self._side.address.get(SEGMENT, "").encode()
            replies = [link.ask(Request(Op.START), where) for link in self._links]
            self._pull()
        # One who comes back finds servers at different updates if it went between two pushes.
        updates = min(reply.update for reply in replies)
        self._versions = [updates] * self._job.servers
        return updates if all(reply.more for reply in replies) else None

    def step(self, batch: Batch) -> Step:
        start = clock_ns()
        self._pushes.begin()
        loss = self._network.differentiate(batch)
        computed = clock_ns()
        self._pushes.finish()
        pushed = clock_ns()
        replies = self._take_answers()
        end = clock_ns()
        # What the server held back for slower workers is waiting, not transfer.
        answered = min(end, pushed + max(reply.waited_ns for reply in replies))
        record = self._recorder.current
        record.compute_start_ns, record.compute_end_ns = start, computed
        record.push_start_ns, record.push_end_ns = computed, pushed
        if self._job.synchronous:
            record.wait_start_ns, record.wait_end_ns = pushed, answered
        record.pull_start_ns, record.pull_end_ns = answered, end
        return Step(
            loss,
            self._versions[0],
            max(reply.staleness for reply in replies),
            all(reply.more for reply in replies),
            all(reply.applied for reply in replies),
        )

    def stop_now(self, mine: bool, update: int) -> bool:
        if mine:
            self._ask_all(Op.STOP)
        return mine

    def finish(self) -> None:
        if self._job.is_chief:
            with self._recorder.wait:
                self._ask_all(Op.FINAL)
            self._pull()
        for link in self._links:
            link.send(Request(Op.LEAVE))

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def snapshot_next_update(self) -> None:
        if self._job.momentum:
            for link in self._links:
                link.send(Request(Op.KEEP))

    def state(self, update: int) -> TrainingState:
        """Values and velocity of a bucket are of the same moment; in ps-sync all are."""
        if not self._job.momentum:
            return TrainingState(update, self.parameters())
        values, velocity = np.empty((2, self._network.vector.size), np.float32)
        for bucket in self._all:
            link = self._links[bucket.server]
            link.send(Request(Op.STATE, bucket=bucket.number))
            reply, payload = link.receive()
            values[bucket.part], velocity[bucket.part] = np.frombuffer(payload, np.float32).reshape(2, -1)
            update = max(update, reply.update)
        return TrainingState(update, self._network.named(values), self._network.named(velocity))

    def shard_sizes(self) -> dict[str, dict[str, int]]:
        return shard_sizes(self._shapes, self._job.servers)

    def close(self) -> None:
        self._links.close()

    def abandon(self) -> None:
        self._links.abandon()

    def _pull(self) -> None:
        """All values."""
        for bucket in self._all:
            self._links[bucket.server].send(Request(Op.PULL, bucket=bucket.number))
        self._take_answers()

    def _push(self, number: int) -> None:
        bucket = self._all[number]
        request = Request(Op.PUSH, self._versions[bucket.server], bucket.number)
        self._links[bucket.server].send(request, self._side.outgoing(bucket.part))

    def _take_answers(self) -> list[Reply]:
        """One for every bucket; what comes with it goes to its place."""
        replies = []
        for server, (link, buckets) in enumerate(zip(self._links, self._buckets, strict=True)):
            for _ in buckets:
                reply, payload = link.receive()
                self._side.incoming(buckets[reply.bucket].part, payload)
                replies.append(reply)
                self._versions[server] = max(self._versions[server], reply.update)
        return replies

    def _ask_all(self, op: Op) -> None:
        for link in self._links:
            link.send(Request(op))
        for link in self._links:
            link.receive()


class _PushAtTheEnd:
    """A small model: watching for its few gradients would cost more than it gains."""

    def __init__(self, network: Network, gradient: Vector, touched: Touched, push: Callable[[int], None]) -> None:
        network.keep_gradients_in(gradient)
        self._push = push
        self._buckets = range(1 + max(map(max, touched)))

    def begin(self) -> None:
        """Nothing to do before backward."""

    def finish(self) -> None:
        for number in self._buckets:
            self._push(number)


class _PushOnTheWay:
    """A large model: each bucket is pushed as soon as backward has all of its gradient."""

    def __init__(self, network: Network, gradient: Vector, touched: Touched, push: Callable[[int], None]) -> None:
        self._push = push
        self._parts = [sum(number in touches for touches in touched) for number in range(1 + max(map(max, touched)))]
        self._missing: list[int] = []
        self._windows, self._found = network.windows(gradient), [False] * len(touched)
        placed = network.place_gradients(self._windows)
        self._nodes = [tensor.view_as(tensor).grad_fn.next_functions[0][0] for tensor in network.tensors]
        """Where backward leaves the gradients: known only as long as somebody holds them."""
        for number, node in enumerate(self._nodes):
            node.register_hook(self._watch(number, network.tensors[number], touched[number], in_place=placed[number]))

    def begin(self) -> None:
        self._missing = list(self._parts)
        self._found = [False] * len(self._found)

    def finish(self) -> None:
        """What a user's module did not use has no gradient: zero, and not what it had the step before."""
        for window, found in zip(self._windows, self._found, strict=True):
            if not found:
                window.zero_()
        for number, missing in enumerate(self._missing):
            if missing:
                self._push(number)
        self._missing = []

    def _watch(self, number: int, tensor: torch.Tensor, touches: list[int], *, in_place: bool) -> Callable[..., None]:
        window = self._windows[number]

        def ready(*_: object) -> None:
            if not in_place:
                if tensor.grad is None:
                    return
                # Copied once: had backward added it up in place, that would be zeros written, read and written again.
                window.copy_(tensor.grad)
                tensor.grad = None
            self._found[number] = True
            if not self._missing:
                return
            for bucket in touches:
                self._missing[bucket] -= 1
                if not self._missing[bucket]:
                    self._push(bucket)

        return ready
