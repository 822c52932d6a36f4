"""A parameter server's decisions, without any socket: requests in, answers out.

A shard holds a part of the parameters. Shard 0 also counts: it hands out leave to make a step only
as often as there are updates to make, so that a run of N updates applies exactly N on every shard.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from paceline.engines.torch.wire import Op, Reply, Request, WireError
from paceline.train.flat import Vector
from paceline.train.recorder import clock_ns

Worker = bytes


class Answer(msgspec.Struct, frozen=True):
    worker: Worker
    reply: Reply
    with_values: bool = True


class Shard:
    def __init__(self, values: Vector, *, lr: float, workers: Iterable[str], limit: int | None, counts: bool) -> None:
        self.values = values
        self.updates = 0
        self._rate = np.float32(lr)
        self._scratch = np.empty_like(values)
        self._workers = {name.encode() for name in workers}
        self._chief = next(iter(sorted(self._workers)))
        self._left: set[Worker] = set()
        self._unstarted = set(self._workers)
        self._leaves = limit if counts else None
        self._stopped = False
        self._final_asked = False

    @property
    def done(self) -> bool:
        return self._left == self._workers

    def handle(self, worker: Worker, request: Request, payload: memoryview | bytes) -> list[Answer]:
        """The answers that are now due; WireError if the request is not for this shard."""
        if worker not in self._workers:
            raise WireError(f"unknown worker {worker!r}")
        match request.op:
            case Op.PULL:
                return [Answer(worker, Reply(self.updates, self._grant(worker)))]
            case Op.PUSH:
                if len(payload) != self.values.nbytes:
                    raise WireError(f"{len(payload)} bytes for a shard of {self.values.nbytes}")
                return self._push(worker, request.version, np.frombuffer(payload, np.float32))
            case Op.STOP:
                self._stopped = True
                return [*self._release(), Answer(worker, Reply(self.updates, more=False), with_values=False)]
            case Op.FINAL:
                self._final_asked = True
                return self._final()
            case Op.LEAVE:
                self._left.add(worker)
                return self._final()

    def _push(self, worker: Worker, version: int, gradient: Vector) -> list[Answer]:
        raise NotImplementedError

    def _release(self) -> list[Answer]:
        """Answers to workers that wait for an update that will not come."""
        return []

    def _descend(self, gradient: Vector, scale: float = 1.0) -> None:
        np.multiply(gradient, self._rate * np.float32(scale), out=self._scratch)
        np.subtract(self.values, self._scratch, out=self.values)
        self.updates += 1

    def _grant(self, worker: Worker) -> bool:
        """Leave to make one step, if any is left once every worker has had its first."""
        self._unstarted.discard(worker)
        if self._stopped:
            return False
        if self._leaves is None:
            return True
        if self._leaves <= len(self._unstarted):
            return False
        self._leaves -= 1
        return True

    def _final(self) -> list[Answer]:
        if not self._final_asked or not self._left >= self._workers - {self._chief}:
            return []
        self._final_asked = False
        return [Answer(self._chief, Reply(self.updates, more=False))]


class AsyncShard(Shard):
    """Every push is an update at once."""

    def _push(self, worker: Worker, version: int, gradient: Vector) -> list[Answer]:
        staleness = self.updates - version
        self._descend(gradient)
        return [Answer(worker, Reply(self.updates, self._grant(worker), staleness=staleness))]


class SyncShard(Shard):
    """An update is the mean of one gradient from each worker, added up in the workers' order."""

    def __init__(self, values: Vector, *, lr: float, workers: Iterable[str], limit: int | None, counts: bool) -> None:
        # All workers know the limit and stop at it together: nothing to hand out.
        super().__init__(values, lr=lr, workers=workers, limit=None, counts=counts)
        self._order = sorted(self._workers, key=lambda name: (len(name), name))
        self._gradients: dict[Worker, Vector] = {}
        self._arrived_ns: dict[Worker, int] = {}

    def _push(self, worker: Worker, version: int, gradient: Vector) -> list[Answer]:
        if self._stopped:
            return [Answer(worker, Reply(self.updates, more=False, applied=False))]
        if worker in self._gradients:
            raise WireError(f"{worker!r} pushed twice for update {self.updates + 1}")
        self._gradients[worker] = gradient
        self._arrived_ns[worker] = clock_ns()
        if len(self._gradients) < len(self._order):
            return []
        total = self._gradients[self._order[0]].copy()
        for name in self._order[1:]:
            total += self._gradients[name]
        self._descend(total, 1 / len(self._order))
        return self._answer_all(applied=True)

    def _release(self) -> list[Answer]:
        return self._answer_all(applied=False)

    def _answer_all(self, *, applied: bool) -> list[Answer]:
        now = clock_ns()
        answers = [
            Answer(name, Reply(self.updates, more=applied, applied=applied, waited_ns=now - self._arrived_ns[name]))
            for name in self._gradients
        ]
        self._gradients.clear()
        return answers


SHARDS: dict[str, type[Shard]] = {"ps-async": AsyncShard, "ps-sync": SyncShard}
