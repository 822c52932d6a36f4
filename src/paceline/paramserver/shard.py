"""A parameter server's decisions, without any socket: requests in, answers out.

A shard holds a part of the parameters, in buckets that are pushed and answered one by one. Shard 0 also counts: it
hands out leave to make a step only as often as there are updates to make, so that a run of N updates applies exactly
N on every shard.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from paceline.errors import RunError
from paceline.paramserver.sgd import BlockSgd, Rows
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Buffer, Op, Reply, Request, WireError, Worker
from paceline.recording.recorder import clock_ns
from paceline.workloads.parameters import Vector

_FOR_THE_CHIEF = (Op.STOP, Op.FINAL, Op.STATE, Op.KEEP)


class ShardReply(msgspec.Struct, frozen=True):
    worker: Worker
    reply: Reply
    part: slice | None = None
    """The values to go with it."""
    payload: Buffer = b""
    """Or what else."""


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard is told."""

    buckets: Sequence[slice]
    lr: float
    momentum: float = 0.0
    workers: Sequence[str]
    backup: int = 0
    """Workers whose gradients an update need not wait for."""
    first: int = 0
    """Updates made before."""
    velocity: Vector | None = None
    """What they left behind; None: nothing."""
    limit: int | None = None
    """Updates to make; None: no leave is needed."""
    counts: bool = True
    by_rows: bool = False
    """Whether pushes are of rows; else of whole buckets. An update is never made of both."""
    folds: bool = False
    """Whether gradients of a sync update are added up as they come: a worker may be a whole gradient ahead of the
    others, and of a large model that is too much to hold. The order of the sum, and with it the last bit, is then left
    to chance."""


class Shard:
    def __init__(self, side: ServerTransfer, plan: ShardPlan) -> None:
        self.values, self._side = side.values, side
        self.updates = plan.first
        self._buckets = plan.buckets
        self._descent = BlockSgd(side.values, plan.lr, plan.momentum, folds=plan.folds, velocity=plan.velocity)
        self._order = [name.encode() for name in plan.workers]
        self._workers = set(self._order)
        self._chief = self._order[0]
        self._left: set[Worker] = set()
        self._unstarted = set(self._workers)
        self._not_ours = Op.PUSH if plan.by_rows else Op.PUSH_ROWS
        self._leaves = plan.limit - plan.first if plan.limit is not None and plan.counts else None
        self._has_leave: set[Worker] = set()
        self._stopped = False
        self._final_asked = False

    @property
    def done(self) -> bool:
        return self._left == self._workers

    def handle(self, worker: Worker, request: Request, payload: Buffer) -> list[ShardReply]:
        """The answers that are now due; WireError if the request is not for this shard."""
        if worker not in self._workers:
            raise WireError(f"unknown worker {worker!r}")
        if request.op in _FOR_THE_CHIEF and worker != self._chief:
            raise WireError(f"{worker!r} is not the chief")
        if request.op is self._not_ours:
            raise WireError("rows where there are none, or a bucket where there are rows")
        if request.version > self.updates:
            raise WireError(f"values of update {request.version}, which is yet to come")
        match request.op:
            case Op.PUSH:
                part = self._part(request.bucket)
                return self._push(worker, request, part, self._side.gradient(worker, part, payload))
            case Op.START:
                self._welcome(worker, payload)
                self._forget(worker)
                return [ShardReply(worker, Reply(self.updates, self._grant(worker)))]
            case Op.STATE:
                part = self._part(request.bucket)
                both = np.concatenate([self.values[part], self._descent.velocity(part)])
                return [ShardReply(worker, Reply(self.updates, more=True, bucket=request.bucket), payload=both)]
            case Op.KEEP:
                self._keep_next()
                return []
            case Op.PULL:
                reply = Reply(self.updates, more=True, bucket=request.bucket)
                return [ShardReply(worker, reply, self._part(request.bucket))]
            case Op.PUSH_ROWS:
                return self._push_rows(worker, request, self._side.lanes.given(worker, request.bucket, payload))
            case Op.PULL_ROWS:
                self._side.lanes.want(worker, request.bucket, payload)
                return [ShardReply(worker, Reply(self.updates, more=True), payload=self._side.lanes.rows(worker))]
            case Op.STOP:
                self._stopped = True
                return [*self._release(), ShardReply(worker, Reply(self.updates, more=False))]
            case Op.FINAL:
                self._final_asked = True
                return self._final()
            case Op.LEAVE:
                self._left.add(worker)
                return self._final()

    def _push(self, worker: Worker, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        raise NotImplementedError

    def _push_rows(self, worker: Worker, request: Request, rows: Rows) -> list[ShardReply]:
        raise NotImplementedError

    def _welcome(self, worker: Worker, where: Buffer) -> None:
        try:
            self._side.welcome(worker, where)
        except RunError as error:
            raise WireError(str(error)) from None

    def _release(self) -> list[ShardReply]:
        """Answers to workers that wait for an update that will not come."""
        return []

    def _forget(self, worker: Worker) -> None:
        """It begins, perhaps anew: what it had pushed of a step under way is void, and nobody waits for the answer."""

    def _keep_next(self) -> None:
        """The chief will ask for the state after the next update."""

    def _part(self, bucket: int) -> slice:
        if bucket >= len(self._buckets):
            raise WireError(f"bucket {bucket} of {len(self._buckets)}")
        return self._buckets[bucket]

    def _grant(self, worker: Worker) -> bool:
        """Leave to make one step, if any is left once every worker has had its first."""
        self._unstarted.discard(worker)
        if self._stopped:
            return False
        if self._leaves is None or worker in self._has_leave:  # One who comes back has not used the leave it had.
            return True
        if self._leaves <= len(self._unstarted):
            return False
        self._leaves -= 1
        self._has_leave.add(worker)
        return True

    def _final(self) -> list[ShardReply]:
        if not self._final_asked or not self._left >= self._workers - {self._chief}:
            return []
        self._final_asked = False
        return [ShardReply(self._chief, Reply(self.updates, more=False))]


class AsyncShard(Shard):
    """Every push is an update at once, bucket by bucket; it counts with its last bucket."""

    def __init__(self, side: ServerTransfer, plan: ShardPlan) -> None:
        super().__init__(side, plan)
        self._pushed: dict[Worker, int] = {}

    def _push(self, worker: Worker, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        self._descent.step(part, [gradient])
        # Backward finds buckets in an order of its own: the last one is known by the count.
        pushed = self._pushed.get(worker, 0) + 1
        if pushed < len(self._buckets):
            self._pushed[worker] = pushed
            return [ShardReply(worker, Reply(self.updates, more=True, bucket=request.bucket), part)]
        self._pushed[worker] = 0
        return [ShardReply(worker, self._counted(worker, request), part)]

    def _push_rows(self, worker: Worker, request: Request, rows: Rows) -> list[ShardReply]:
        self._descent.step_rows([rows])
        return [ShardReply(worker, self._counted(worker, request), payload=self._side.lanes.rows(worker))]

    def _forget(self, worker: Worker) -> None:
        self._pushed[worker] = 0

    def _counted(self, worker: Worker, request: Request) -> Reply:
        self._has_leave.discard(worker)
        staleness = self.updates - request.version
        self.updates += 1
        return Reply(self.updates, self._grant(worker), staleness=staleness, bucket=request.bucket)


class SyncShard(Shard):
    """An update is the mean of one gradient from each worker."""

    def __init__(self, side: ServerTransfer, plan: ShardPlan) -> None:
        # The limit is left out: all workers know it and stop at it together.
        super().__init__(side, msgspec.structs.replace(plan, limit=None))
        self._held: list[dict[Worker, Any]] = [{} for _ in self._buckets]
        self._arrived_ns: list[dict[Worker, int]] = [{} for _ in self._buckets]
        self._ghosts: list[set[Worker]] = [set() for _ in self._buckets]
        """Whose gradient is folded in already, but who has come back since and will push it again."""
        self._made = [plan.first] * len(self._buckets)
        """Updates of each bucket."""
        self._open = len(self._buckets)
        """Buckets that the coming update still lacks."""
        self._folds, self._keeps = plan.folds, False
        self._enough = len(self._order) - plan.backup

    def _push(self, worker: Worker, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        held = self._held[request.bucket]
        is_late = request.version < self._made[request.bucket]
        if self._folds and not self._stopped and not is_late and worker not in held:
            self._descent.fold(part, gradient, first=not held, of=self._enough)
        return self._gather(worker, request, None if self._folds else gradient, part)

    def _push_rows(self, worker: Worker, request: Request, rows: Rows) -> list[ShardReply]:
        return self._gather(worker, msgspec.structs.replace(request, bucket=0), rows, None)

    def _gather(self, worker: Worker, request: Request, gradient: Any, part: slice | None) -> list[ShardReply]:
        held, arrived = self._held[request.bucket], self._arrived_ns[request.bucket]
        if self._stopped:
            return [ShardReply(worker, Reply(self.updates, more=False, applied=False, bucket=request.bucket))]
        if request.version < self._made[request.bucket]:
            return [self._late(worker, request, part)]
        if worker in held and worker not in self._ghosts[request.bucket]:
            raise WireError(f"{worker!r} pushed twice for update {self.updates + 1}")
        self._ghosts[request.bucket].discard(worker)
        held[worker], arrived[worker] = gradient, clock_ns()
        if len(held) < self._enough:
            return []
        self._apply(request.bucket, part)
        self._made[request.bucket] += 1
        self._open -= 1
        if part is None or not self._open:
            self.updates += 1
            self._open = len(self._buckets)
            if self._keeps:
                self._descent.keep()
            elif self._folds:
                self._descent.forget_kept()
            self._keeps = False
        return self._answer(request.bucket, part, applied=True)

    def _late(self, worker: Worker, request: Request, part: slice | None) -> ShardReply:
        """The bucket's update is made: without this worker, who is slow, or with what it had pushed before it went."""
        rows = self._side.lanes.rows(worker) if part is None else b""
        applied = self._enough == len(self._order)
        return ShardReply(worker, Reply(self.updates, more=True, applied=applied, bucket=request.bucket), part, rows)

    def _forget(self, worker: Worker) -> None:
        for held, ghosts in zip(self._held, self._ghosts, strict=True):
            if worker in held and self._folds:
                ghosts.add(worker)
            else:
                held.pop(worker, None)

    def _keep_next(self) -> None:
        # Where gradients are held apart until the update, the velocity stays as it is meanwhile.
        self._keeps = self._folds

    def _apply(self, bucket: int, part: slice | None) -> None:
        gradients = [self._held[bucket][name] for name in self._order if name in self._held[bucket]]
        if part is None:
            self._descent.step_rows(gradients)
        elif self._folds:
            self._descent.finish(part)
        else:
            self._descent.step(part, gradients)

    def _release(self) -> list[ShardReply]:
        return [answer for bucket in range(len(self._buckets)) for answer in self._answer(bucket, None, applied=False)]

    def _answer(self, bucket: int, part: slice | None, *, applied: bool) -> list[ShardReply]:
        """To all who pushed this bucket."""
        now, arrived = clock_ns(), self._arrived_ns[bucket]
        by_rows = applied and part is None
        answers = [
            ShardReply(
                name,
                Reply(self.updates, applied, applied, waited_ns=now - arrived[name], bucket=bucket),
                part,
                self._side.lanes.rows(name) if by_rows else b"",
            )
            for name in self._held[bucket]
            if name not in self._ghosts[bucket]
        ]
        self._held[bucket].clear()
        self._ghosts[bucket].clear()
        return answers
