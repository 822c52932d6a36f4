"""The logic of a parameter server without any I/O: requests in, replies out.

A shard is the part of the parameters that one server stores, cut into buckets that are pushed and answered one by one.

A worker makes a step only with a step permit, which a reply grants. In ps-async the server with shard 0 limits the run:
it grants exactly as many permits as there are updates to make, so a run of N updates applies exactly N on every shard.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from paceline.errors import RunError
from paceline.paramserver.norm_exchange import pack_norm, unpack_norm
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Buffer, Op, Reply, Request, WireError, WorkerName
from paceline.recording.recorder import clock_ns
from paceline.spec.optimizer import Optimizer
from paceline.train.block_optimizer import BlockOptimizer, Rows, Section, clip_scale
from paceline.workloads.parameters import Vector

_CHIEF_ONLY = (Op.STOP, Op.AWAIT_DONE, Op.STATE, Op.SNAPSHOT, Op.CLIP)


class ShardReply(msgspec.Struct, frozen=True):
    """A reply, the worker that gets it, and what it carries: a part of the values, another payload, or nothing."""

    worker: WorkerName
    reply: Reply
    part: slice | None = None
    """The part of the values that the reply carries; None if it carries `payload`."""
    payload: Buffer = b""


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a shard."""

    buckets: Sequence[slice]
    optimizer: Optimizer
    sections: Sequence[Section] | None = None
    """The parts of the values that have settings of their own; None: all have the same."""
    workers: Sequence[str]
    """The names of all workers; the first one is the chief."""
    backup: int = 0
    """How many workers' gradients a synchronous update need not wait for."""
    first_update: int = 0
    """How many updates were made before, if the run continues from a checkpoint."""
    state: Mapping[str, Vector] = {}
    """The optimizer's state in the checkpoint, by name; what it does not have starts at zero."""
    update_limit: int | None = None
    """How many updates the run makes; None: no limit, every worker always gets a step permit."""
    limits_updates: bool = True
    """Whether this shard limits the number of step permits. One shard does it for all."""
    by_rows: bool = False
    """Whether workers push rows (PUSH_ROWS); else they push buckets (PUSH). An update never mixes the two."""
    has_whole_gradient: bool = True
    """Whether there is no other shard. Otherwise the norm of a gradient that is to be clipped comes from the chief."""
    accumulates: bool = False
    """Whether the gradients of a synchronous update are summed as they arrive. Otherwise the shard stores them until
    the update: that is a gradient per worker, too much for a large model. When summed on arrival, the order of the sum,
    and with it the last bit of the result, depends on timing."""


class Shard:
    def __init__(self, transfer: ServerTransfer, plan: ShardPlan) -> None:
        self.values, self._transfer, self._row_buffers = transfer.values, transfer, transfer.row_buffers
        self.updates = plan.first_update
        self._buckets = plan.buckets
        self._optimizer = BlockOptimizer(
            transfer.values,
            plan.optimizer,
            sections=plan.sections,
            state=plan.state,
            accumulates=plan.accumulates,
        )
        self._worker_order = [name.encode() for name in plan.workers]
        self._workers = set(self._worker_order)
        self._chief = self._worker_order[0]
        self._finished: set[WorkerName] = set()
        self._unstarted = set(self._workers)
        self._refused_push = Op.PUSH if plan.by_rows else Op.PUSH_ROWS
        self._permits_left: int | None = None
        """None: unlimited."""
        if plan.update_limit is not None and plan.limits_updates:
            self._permits_left = plan.update_limit - plan.first_update
        self._permit_holders: set[WorkerName] = set()
        self._stopped = False
        self._chief_waits = False
        """Whether the chief waits for the reply to AWAIT_DONE."""

    @property
    def done(self) -> bool:
        """Whether all workers have finished."""
        return self._finished == self._workers

    def handle(self, worker: WorkerName, request: Request, payload: Buffer) -> list[ShardReply]:
        """The replies that are now due, also to other workers; WireError if the shard cannot accept the request."""
        if worker not in self._workers:
            raise WireError(f"unknown worker {worker!r}")
        if request.op in _CHIEF_ONLY and worker != self._chief:
            raise WireError(f"{worker!r} sent {request.op.name}, but is not the chief")
        if request.op is self._refused_push:
            raise WireError(f"{request.op.name} does not fit this model: dense models use PUSH, sparse ones PUSH_ROWS")
        if request.version > self.updates:
            raise WireError(f"the request refers to update {request.version}, the latest is {self.updates}")
        match request.op:
            case Op.PUSH:
                part = self._part(request.bucket)
                return self._push(worker, request, part, self._transfer.gradient(worker, part, payload))
            case Op.START:
                self._map_worker(worker, payload)
                self._discard_pending(worker)
                return [ShardReply(worker, Reply(self.updates, self._grant_permit(worker)))]
            case Op.STATE:
                part = self._part(request.bucket)
                state = np.concatenate([self.values[part], *self._optimizer.state_of(part)])
                return [ShardReply(worker, Reply(self.updates, permit=True, bucket=request.bucket), payload=state)]
            case Op.SNAPSHOT:
                self._snapshot_next_update()
                return []
            case Op.PULL:
                reply = Reply(self.updates, permit=True, bucket=request.bucket)
                values = self._transfer.pull_payload(worker, self._part(request.bucket))
                return [ShardReply(worker, reply, payload=values)]
            case Op.PUSH_ROWS:
                rows = self._row_buffers.take_gradient(worker, request.bucket, payload)
                return self._push_rows(worker, request, rows)
            case Op.PULL_ROWS:
                self._row_buffers.request_rows(worker, request.bucket, payload)
                return [
                    ShardReply(
                        worker, Reply(self.updates, permit=True), payload=self._row_buffers.reply_payload(worker)
                    )
                ]
            case Op.CLIP:
                return self._make_clipped_update(unpack_norm(payload))
            case Op.STOP:
                self._stopped = True
                return [*self._release_waiting(), ShardReply(worker, Reply(self.updates, permit=False))]
            case Op.AWAIT_DONE:
                self._chief_waits = True
                return self._reply_to_waiting_chief()
            case Op.DONE:
                self._finished.add(worker)
                return [*self._release_after_done(worker), *self._reply_to_waiting_chief()]

    def _push(self, worker: WorkerName, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        raise NotImplementedError

    def _push_rows(self, worker: WorkerName, request: Request, rows: Rows) -> list[ShardReply]:
        raise NotImplementedError

    def _make_clipped_update(self, squared_norm: float) -> list[ShardReply]:
        """The replies to the update that waited for the norm of the whole gradient."""
        raise WireError("no update waits for a norm")

    def _release_waiting(self) -> list[ShardReply]:
        """Replies to the workers that wait for an update that will not be made."""
        return []

    def _release_after_done(self, worker: WorkerName) -> list[ShardReply]:
        """Replies to the workers that waited for a worker that now makes no more steps."""
        return []

    def _discard_pending(self, worker: WorkerName) -> None:
        """Drop what a worker pushed of an unfinished step: it starts, maybe after a restart, and awaits no reply."""

    def _snapshot_next_update(self) -> None:
        """Prepare for STATE, which the chief will request after the next update."""

    def _map_worker(self, worker: WorkerName, path: Buffer) -> None:
        try:
            self._transfer.map_worker(worker, path)
        except RunError as error:
            raise WireError(str(error)) from None

    def _part(self, bucket: int) -> slice:
        if bucket >= len(self._buckets):
            raise WireError(f"bucket {bucket} does not exist: this shard has {len(self._buckets)}")
        return self._buckets[bucket]

    def _grant_permit(self, worker: WorkerName) -> bool:
        """Grant a step permit if one is left, keeping one for each worker that has not started."""
        self._unstarted.discard(worker)
        if self._stopped:
            return False
        # A worker that was restarted still has the permit that it did not use.
        if self._permits_left is None or worker in self._permit_holders:
            return True
        if self._permits_left <= len(self._unstarted):
            return False
        self._permits_left -= 1
        self._permit_holders.add(worker)
        return True

    def _reply_to_waiting_chief(self) -> list[ShardReply]:
        if not self._chief_waits or not self._finished >= self._workers - {self._chief}:
            return []
        self._chief_waits = False
        return [ShardReply(self._chief, Reply(self.updates, permit=False))]


class AsyncShard(Shard):
    """Applies every pushed bucket at once. A worker's push counts as an update with its last bucket."""

    def __init__(self, transfer: ServerTransfer, plan: ShardPlan) -> None:
        super().__init__(transfer, plan)
        self._pushed: dict[WorkerName, int] = {}
        """How many buckets of its current step each worker has pushed."""

    def _push(self, worker: WorkerName, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        self._optimizer.step(part, [gradient], self.updates)
        # The backward pass completes buckets in any order, so only the count tells which one is the last.
        pushed = self._pushed.get(worker, 0) + 1
        if pushed < len(self._buckets):
            self._pushed[worker] = pushed
            return [ShardReply(worker, Reply(self.updates, permit=True, bucket=request.bucket), part)]
        self._pushed[worker] = 0
        return [ShardReply(worker, self._count_update(worker, request), part)]

    def _push_rows(self, worker: WorkerName, request: Request, rows: Rows) -> list[ShardReply]:
        self._optimizer.step_rows([rows], self.updates)
        return [
            ShardReply(worker, self._count_update(worker, request), payload=self._row_buffers.reply_payload(worker))
        ]

    def _discard_pending(self, worker: WorkerName) -> None:
        self._pushed[worker] = 0

    def _count_update(self, worker: WorkerName, request: Request) -> Reply:
        self._permit_holders.discard(worker)
        staleness = self.updates - request.version
        self.updates += 1
        return Reply(self.updates, self._grant_permit(worker), staleness=staleness, bucket=request.bucket)


class SyncShard(Shard):
    """Applies the mean of one gradient from each worker as one update."""

    def __init__(self, transfer: ServerTransfer, plan: ShardPlan) -> None:
        # No permits are counted: all workers know the update limit and stop at it together.
        super().__init__(transfer, msgspec.structs.replace(plan, update_limit=None))
        self._pending: list[dict[WorkerName, Any]] = [{} for _ in self._buckets]
        """For each bucket, the gradients pushed for its next update (None where they are accumulated)."""
        self._arrived_ns: list[dict[WorkerName, int]] = [{} for _ in self._buckets]
        self._replayed: list[set[WorkerName]] = [set() for _ in self._buckets]
        """For each bucket, the workers whose gradient is already accumulated, but which were restarted since and will
        push it again."""
        self._bucket_updates = [plan.first_update] * len(self._buckets)
        """How many updates each bucket has had."""
        self._buckets_missing = len(self._buckets)
        """How many buckets the next update still needs."""
        self._accumulates, self._snapshot_is_due, self._clip = plan.accumulates, False, plan.optimizer.clip
        self._clips_alone, self._awaits_norm, self._by_rows = plan.has_whole_gradient, False, plan.by_rows
        self._required = len(self._worker_order) - plan.backup
        """How many workers' gradients an update needs."""

    def _push(self, worker: WorkerName, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        pending = self._pending[request.bucket]
        is_late = request.version < self._bucket_updates[request.bucket]
        if self._accumulates and not self._stopped and not is_late and worker not in pending:
            self._optimizer.accumulate(part, gradient, is_first=not pending, count=self._required)
        return self._add_pending(worker, request, None if self._accumulates else gradient, part)

    def _push_rows(self, worker: WorkerName, request: Request, rows: Rows) -> list[ShardReply]:
        return self._add_pending(worker, msgspec.structs.replace(request, bucket=0), rows, None)

    def _add_pending(self, worker: WorkerName, request: Request, gradient: Any, part: slice | None) -> list[ShardReply]:
        """Store the gradient; with the last one that is required, apply the update and reply to all who pushed."""
        pending, arrived_ns = self._pending[request.bucket], self._arrived_ns[request.bucket]
        if self._stopped:
            return [ShardReply(worker, Reply(self.updates, permit=False, applied=False, bucket=request.bucket))]
        if request.version < self._bucket_updates[request.bucket]:
            return [self._reply_to_late_push(worker, request, part)]
        if worker in pending and worker not in self._replayed[request.bucket]:
            raise WireError(f"{worker!r} pushed twice for update {self.updates + 1}")
        self._replayed[request.bucket].discard(worker)
        pending[worker], arrived_ns[worker] = gradient, clock_ns()
        if len(pending) < self._required:
            return []
        if self._clip is not None:
            return self._clip_when_complete()
        self._apply(request.bucket, part)
        self._bucket_updates[request.bucket] += 1
        self._buckets_missing -= 1
        if part is None or not self._buckets_missing:
            self._complete_update()
        return self._reply_to_pending(request.bucket, part, applied=True)

    @property
    def _parts(self) -> Sequence[slice | None]:
        """What an update consists of: all buckets, or the rows that were pushed."""
        return (None,) if self._by_rows else self._buckets

    def _clip_when_complete(self) -> list[ShardReply]:
        """As soon as the gradient of each bucket is there, make the update, or send its norm to the chief if other
        shards have parts of the gradient too."""
        if any(len(self._pending[bucket]) < self._required for bucket in range(len(self._parts))):
            return []
        squared_norm = sum(self._squared_norm(bucket, part) for bucket, part in enumerate(self._parts))
        self._awaits_norm = True
        if self._clips_alone:
            return self._make_clipped_update(squared_norm)
        return [ShardReply(self._chief, Reply(self.updates, permit=True), payload=pack_norm(squared_norm))]

    def _make_clipped_update(self, squared_norm: float) -> list[ShardReply]:
        """Apply all buckets at once, scaled by the norm of the whole gradient."""
        if not self._awaits_norm or self._clip is None:
            raise WireError("no update waits for a norm")
        self._awaits_norm = False
        scale = clip_scale(self._clip, squared_norm)
        for bucket, part in enumerate(self._parts):
            self._apply(bucket, part, scale)
            self._bucket_updates[bucket] += 1
        self._complete_update()
        parts = enumerate(self._parts)
        return [reply for bucket, part in parts for reply in self._reply_to_pending(bucket, part, applied=True)]

    def _squared_norm(self, bucket: int, part: slice | None) -> float:
        if part is None:
            return self._optimizer.squared_norm_of_rows(self._gradients(bucket))
        if self._accumulates:
            return self._optimizer.accumulated_squared_norm(part)
        return self._optimizer.squared_norm(part, self._gradients(bucket))

    def _complete_update(self) -> None:
        self.updates += 1
        self._buckets_missing = len(self._buckets)
        if self._snapshot_is_due:
            self._optimizer.snapshot_state()
        elif self._accumulates:
            self._optimizer.drop_snapshot()
        self._snapshot_is_due = False

    def _reply_to_late_push(self, worker: WorkerName, request: Request, part: slice | None) -> ShardReply:
        """The bucket's update is already made: without this slow worker (backup), or with what it pushed before it was
        restarted."""
        rows = self._row_buffers.reply_payload(worker) if part is None else b""
        applied = self._required == len(self._worker_order)
        return ShardReply(worker, Reply(self.updates, permit=True, applied=applied, bucket=request.bucket), part, rows)

    def _discard_pending(self, worker: WorkerName) -> None:
        self._awaits_norm = False
        for pending, replayed in zip(self._pending, self._replayed, strict=True):
            if worker in pending and self._accumulates:
                replayed.add(worker)
            else:
                pending.pop(worker, None)

    def _snapshot_next_update(self) -> None:
        # Without accumulation no snapshot is needed: the state does not change between updates.
        self._snapshot_is_due = self._accumulates

    def _apply(self, bucket: int, part: slice | None, scale: float = 1.0) -> None:
        update = self._bucket_updates[bucket]
        if part is None:
            self._optimizer.step_rows(self._gradients(bucket), update, scale)
        elif self._accumulates:
            self._optimizer.apply_accumulated(part, update, scale)
        else:
            self._optimizer.step(part, self._gradients(bucket), update, scale)

    def _gradients(self, bucket: int) -> list[Any]:
        """What the workers pushed of a bucket: in the order of the workers, not of arrival, so that a run gives the
        same bits every time."""
        pending = self._pending[bucket]
        return [pending[name] for name in self._worker_order if name in pending]

    def _release_waiting(self) -> list[ShardReply]:
        buckets = range(len(self._buckets))
        return [reply for bucket in buckets for reply in self._reply_to_pending(bucket, None, applied=False)]

    def _reply_to_pending(self, bucket: int, part: slice | None, *, applied: bool) -> list[ShardReply]:
        """Replies to all workers that pushed this bucket and wait for its update."""
        now_ns, arrived_ns = clock_ns(), self._arrived_ns[bucket]
        by_rows = applied and part is None
        replies = [
            ShardReply(
                name,
                Reply(self.updates, applied, applied, waited_ns=now_ns - arrived_ns[name], bucket=bucket),
                part,
                self._row_buffers.reply_payload(name) if by_rows else b"",
            )
            for name in self._pending[bucket]
            if name not in self._replayed[bucket]
        ]
        self._pending[bucket].clear()
        self._replayed[bucket].clear()
        return replies
