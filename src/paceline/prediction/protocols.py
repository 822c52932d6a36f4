"""How the tasks of each kind of strategy exchange gradients, as processes of a simulation.

The descriptor of a strategy names one of these functions in `protocol`. A strategy of another package brings its own: a
function that starts the processes of all tasks of a cluster, and appends a `StepTimes` to its `steps` after each step.
"""

import math
from typing import NamedTuple

from paceline.prediction.cluster import Cluster, StepTimes, Task
from paceline.prediction.simulator.simulation import Acquire, Await, Gate, Process

_FORWARD = 1 / 3
"""Part of the computation before the first gradient is complete."""


def no_exchange(cluster: Cluster) -> None:
    """Every worker computes by itself."""

    def work(worker: Task) -> Process:
        while True:
            start = cluster.simulation.now
            yield cluster.compute_step(worker)
            end = cluster.simulation.now
            cluster.steps.append(StepTimes(worker.name, start, end, end, end, end))
            cluster.updates.append(end)

    for worker in cluster.workers:
        cluster.simulation.spawn(work(worker))


def parameter_server(cluster: Cluster) -> None:
    """Workers send their gradients to every server, which replies with new parameters: at once, when it has the
    gradients of all workers that a synchronous update needs, or when the worker is not too many steps ahead."""
    servers = _Servers(cluster)

    def work(worker: Task) -> Process:
        simulation, buckets = cluster.simulation, servers.buckets
        while True:
            start = simulation.now
            sent, received = Gate(len(cluster.servers) * buckets), Gate(len(cluster.servers) * buckets)
            times = [0.0]
            if buckets == 1:
                yield cluster.compute_step(worker)
                servers.push(_Push(worker, 0, sent, received, times))
            else:
                yield cluster.compute_step(worker, _FORWARD)
                for bucket in range(buckets):
                    yield cluster.compute_step(worker, (1 - _FORWARD) / buckets)
                    servers.push(_Push(worker, bucket, sent, received, times))
            computed = simulation.now
            yield Await(sent)
            pushed = simulation.now
            yield Await(received)
            end = simulation.now
            cluster.steps.append(
                StepTimes(worker.name, start, computed, pushed, min(end, pushed + max(times[0], 0.0)), end)
            )

    for worker in cluster.workers:
        cluster.simulation.spawn(work(worker))


class _Push(NamedTuple):
    """A part of a worker's gradients on its way to the servers."""

    worker: Task
    bucket: int
    sent: Gate
    """Signalled by each server's part when the worker has sent it, and when the reply has arrived."""
    received: Gate
    waited: list[float]
    """The longest time for which a server delayed its reply for other workers."""


class _Shard:
    """What a server has received for the next update of one bucket."""

    def __init__(self) -> None:
        self.updates = 0
        self.held: list[tuple[_Push, float]] = []
        """Gradients with their time of arrival."""
        self.versions: dict[Task, int] = {}
        """The update that each worker has received last."""


class _Ledger:
    """What a server knows of the workers if they may be only some steps apart."""

    def __init__(self, workers: list[str]) -> None:
        self.pushes = dict.fromkeys(workers, 0)
        """Parts of gradients that each worker has sent."""
        self.held: list[tuple[_Push, float]] = []
        """Those that wait for a reply, with their time of arrival."""


class _Servers:
    """The servers' side of `parameter_server`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, setup, costs = cluster, cluster.setup, cluster.costs
        count = len(cluster.servers)
        self.buckets = max(1, math.ceil(costs.sent_bytes / count / costs.bucket_bytes))
        self._shares = setup.shares or (1 / count,) * count
        self._synchronous = setup.strategy.synchronous
        sync_s = (costs.worker_sync_s, costs.server_sync_s) if self._synchronous else (0.0, 0.0)
        # Each exchange has a message in both directions. A worker has these costs once in a step, a server per worker.
        self._worker_s = (costs.worker_message_s + sync_s[0] / count) / 2
        self._server_s = (costs.server_message_s + sync_s[1]) / 2
        self._worker_byte_s = costs.worker_byte_s * (1 + costs.repeated)
        self._server_byte_s = costs.server_byte_s * (1 + costs.repeated)
        self._needed = setup.strategy.gradients_per_update(len(cluster.workers), setup.backup)
        self._shards = [[_Shard() for _ in range(self.buckets)] for _ in cluster.servers]
        self._ledgers = [_Ledger([worker.name for worker in cluster.workers]) for _ in cluster.servers]

    def push(self, push: _Push) -> None:
        """Send a part of the gradients to every server, and receive the replies."""
        for number in range(len(self._cluster.servers)):
            self._cluster.simulation.spawn(self._push(push, number))

    def _size(self, number: int, total: float) -> float:
        return total * self._shares[number] / self.buckets

    def _push(self, push: _Push, number: int) -> Process:
        cluster, server = self._cluster, self._cluster.servers[number]
        size = self._size(number, cluster.costs.sent_bytes)
        yield from cluster.handle(push.worker, push.worker.network, self._worker_s + self._worker_byte_s * size)
        cluster.simulation.signal(push.sent)
        yield from self._carry(push.worker, server, size)
        yield from self._serve(server, self._server_s + self._server_byte_s * size)
        shard = self._shards[number][push.bucket]
        if self._synchronous and shard.versions.get(push.worker, 0) < shard.updates:
            # Its update was made without it, so its gradient is dropped.
            self._reply_now(push, number)
            return
        if cluster.setup.staleness_bound is not None:
            self._reply_to_those_in_reach(push, number)
            return
        shard.held.append((push, cluster.simulation.now))
        if len(shard.held) >= self._needed:
            self._update(shard, number)

    def _update(self, shard: _Shard, number: int) -> None:
        """Make an update, and reply to all workers whose gradients are in it."""
        now = self._cluster.simulation.now
        held, shard.held = shard.held, []
        shard.updates += 1
        if number == 0 and held[0][0].bucket == 0:
            self._cluster.updates.append(now)
        for push, arrived in held:
            push.waited[0] = max(push.waited[0], now - arrived)
            self._reply_now(push, number)

    def _reply_to_those_in_reach(self, push: _Push, number: int) -> None:
        """Apply a gradient, and reply to all workers that are not too many steps ahead of the slowest."""
        cluster, ledger = self._cluster, self._ledgers[number]
        now, bound = cluster.simulation.now, cluster.setup.staleness_bound
        if number == 0 and push.bucket == 0:
            cluster.updates.append(now)
        ledger.pushes[push.worker.name] += 1
        ledger.held.append((push, now))
        steps = {name: count // self.buckets for name, count in ledger.pushes.items()}
        furthest = min(steps.values()) + (bound or 0)
        due = [one for one in ledger.held if steps[one[0].worker.name] <= furthest]
        ledger.held = [one for one in ledger.held if steps[one[0].worker.name] > furthest]
        for one, arrived in due:
            one.waited[0] = max(one.waited[0], now - arrived)
            self._reply_now(one, number)

    def _reply_now(self, push: _Push, number: int) -> None:
        shard = self._shards[number][push.bucket]
        shard.versions[push.worker] = shard.updates
        self._cluster.simulation.spawn(self._reply(push, number))

    def _reply(self, push: _Push, number: int) -> Process:
        cluster, server = self._cluster, self._cluster.servers[number]
        size = self._size(number, cluster.costs.received_bytes)
        yield from self._serve(server, self._server_s + self._server_byte_s * size)
        yield from self._carry(server, push.worker, size)
        yield from cluster.handle(push.worker, push.worker.network, self._worker_s + self._worker_byte_s * size)
        cluster.simulation.signal(push.received)

    def _carry(self, sender: Task, receiver: Task, size: float) -> Process:
        """Send a message, and what the engine sends in the other direction meanwhile."""
        cluster, done = self._cluster, Gate(1)

        def repeat() -> Process:
            yield from cluster.transfer(receiver, sender, size * cluster.costs.repeated, "repeated")
            cluster.simulation.signal(done)

        if cluster.costs.repeated:
            cluster.simulation.spawn(repeat())
        yield from cluster.transfer(sender, receiver, size)
        if cluster.costs.repeated:
            yield Await(done)

    def _serve(self, server: Task, cpu_s: float) -> Process:
        cluster = self._cluster
        yield Acquire(server.main)
        start = cluster.simulation.now
        yield from cluster.handle(server, server.network, cpu_s)
        cluster.serving_s[server.name] = cluster.serving_s.get(server.name, 0.0) + cluster.simulation.now - start
        cluster.simulation.release(server.main)


def ring(cluster: Cluster) -> None:
    """Workers average their gradients, or after several steps their parameters, in a ring. Two halves go around at the
    same time in parts of 1/n, first to be added and then to be distributed."""
    count = len(cluster.workers)
    halves = 2
    arrivals: dict[tuple[int, int, int, int], Gate] = {}
    size = cluster.costs.sent_bytes / (halves * count)

    def half(worker: Task, index: int, step: int, which: int, done: Gate) -> Process:
        costs, simulation = cluster.costs, cluster.simulation
        neighbour = (index - 1) % count
        cpu_s = (costs.round_s + costs.ring_byte_s * size) / 2
        for turn in range(2 * (count - 1)):
            yield from cluster.handle(worker, worker.network, cpu_s)
            simulation.spawn(carry(worker, cluster.workers[neighbour], (step, turn, which, neighbour)))
            yield Await(arrivals.setdefault((step, turn, which, index), Gate()))
            del arrivals[step, turn, which, index]
            yield from cluster.handle(worker, worker.network, cpu_s)
        simulation.signal(done)

    def carry(sender: Task, receiver: Task, key: tuple[int, int, int, int]) -> Process:
        yield from cluster.transfer(sender, receiver, size)
        cluster.simulation.signal(arrivals.setdefault(key, Gate()))

    def work(worker: Task, index: int) -> Process:
        step, simulation = 0, cluster.simulation
        while True:
            start = simulation.now
            yield cluster.compute_step(worker)
            exchanges = count > 1 and (step + 1) % cluster.setup.sync_every == 0
            if exchanges:
                yield cluster.compute(worker, cluster.costs.ring_step_s)
            computed = simulation.now
            if exchanges:
                done = Gate(halves)
                for which in range(halves):
                    simulation.spawn(half(worker, index, step, which, done))
                yield Await(done)
            end = simulation.now
            cluster.steps.append(StepTimes(worker.name, start, computed, end, end, end))
            if index == 0:
                cluster.updates.append(end)
            step += 1

    for index, worker in enumerate(cluster.workers):
        cluster.simulation.spawn(work(worker, index))
