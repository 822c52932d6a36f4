"""The shard of strategy ssp: asynchronous updates, with workers that stay at most some steps apart.

Every gradient is applied at once, as in ps-async. The reply to a step is held back while its worker is more than
`staleness_bound` steps ahead of the slowest worker. It carries the values at the time when it is sent, so with bound 0
all workers compute each step from the same values.
"""

import msgspec

from paceline.paramserver.shard import Shard, ShardPlan, ShardReply
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Buffer, Op, Reply, Request, WorkerName
from paceline.recording.recorder import clock_ns
from paceline.train.block_optimizer import Rows
from paceline.workloads.parameters import Vector


class _Held(msgspec.Struct):
    """The replies of one step of a worker, held back until the worker may make its next step."""

    buckets: list[int]
    staleness: int
    since_ns: int


class BoundedShard(Shard):
    """Applies every pushed bucket at once, and replies to a whole step when its worker may make the next one."""

    def __init__(self, transfer: ServerTransfer, plan: ShardPlan, staleness_bound: int) -> None:
        super().__init__(transfer, plan)
        self._bound, self._by_rows = staleness_bound, plan.by_rows
        self._steps = dict.fromkeys(self._workers, 0)
        """How many steps each worker has pushed. Workers that make no more steps are not in it."""
        self._pushed: dict[WorkerName, list[int]] = {worker: [] for worker in self._workers}
        """The buckets of its current step that each worker has pushed."""
        self._held: dict[WorkerName, _Held] = {}
        self._pulls_of_worker = 1 if plan.by_rows else len(self._buckets)
        self._pulls_missing = dict.fromkeys(self._workers, self._pulls_of_worker) if staleness_bound == 0 else {}
        """With bound 0: how many pulls of its first values each worker has still to make. Nobody gets them earlier:
        else a fast worker could push its first gradient before a slow one has the values to compute its own from."""
        self._held_pulls: list[ShardReply] = []

    def handle(self, worker: WorkerName, request: Request, payload: Buffer) -> list[ShardReply]:
        replies = super().handle(worker, request, payload)
        return self._hold_first_pulls(worker, request.op, replies) if self._pulls_missing else replies

    def _hold_first_pulls(self, worker: WorkerName, op: Op, replies: list[ShardReply]) -> list[ShardReply]:
        """The replies that may be sent now: those to pulls only when every worker has pulled."""
        if op in (Op.PULL, Op.PULL_ROWS):
            self._held_pulls += replies
            replies = []
            self._pulls_missing[worker] = self._pulls_missing.get(worker, 1) - 1
        elif op is Op.START:
            # It may be a new process of a worker that has pulled before.
            self._held_pulls = [held for held in self._held_pulls if held.worker != worker]
            self._pulls_missing[worker] = self._pulls_of_worker if replies[0].reply.permit else 0
        elif op in (Op.DONE, Op.AWAIT_DONE):
            self._pulls_missing[worker] = 0
        if not self._pulls_missing.get(worker, 1):
            del self._pulls_missing[worker]
        if not self._pulls_missing:
            replies, self._held_pulls = [*replies, *self._held_pulls], []
        return replies

    def _push(self, worker: WorkerName, request: Request, part: slice, gradient: Vector) -> list[ShardReply]:
        self._optimizer.step(part, [gradient], self.updates)
        pushed = self._pushed[worker]
        pushed.append(request.bucket)
        if len(pushed) < len(self._buckets):
            return []
        return self._complete_step(worker, request)

    def _push_rows(self, worker: WorkerName, request: Request, rows: Rows) -> list[ShardReply]:
        self._optimizer.step_rows([rows], self.updates)
        self._pushed[worker].append(request.bucket)
        return self._complete_step(worker, request)

    def _complete_step(self, worker: WorkerName, request: Request) -> list[ShardReply]:
        """Count the update, hold the worker's replies back, and send those that are now due."""
        self._permit_holders.discard(worker)
        self._held[worker] = _Held(self._pushed[worker], self.updates - request.version, clock_ns())
        self._pushed[worker] = []
        self.updates += 1
        if worker in self._steps:
            self._steps[worker] += 1
        return self._release_due()

    def _release_due(self) -> list[ShardReply]:
        """Reply to the workers that are no longer too far ahead."""
        replies: list[ShardReply] = []
        released = True
        while released:  # A worker that gets no permit makes no more steps, so that others need not wait for it.
            due = [worker for worker in self._worker_order if worker in self._held and self._may_continue(worker)]
            released = False
            for worker in due:
                permit = self._grant_permit(worker)
                if not permit:
                    self._steps.pop(worker, None)
                    released = True
                replies += self._replies(worker, permit=permit)
        return replies

    def _may_continue(self, worker: WorkerName) -> bool:
        """Whether the worker waits for no other one; at the end of the run, nobody does."""
        steps = self._steps.get(worker)
        return self._stopped or steps is None or steps - min(self._steps.values()) <= self._bound

    def _replies(self, worker: WorkerName, *, permit: bool) -> list[ShardReply]:
        """The replies to all buckets of the step that is held back."""
        held, now_ns = self._held.pop(worker), clock_ns()
        headers = [
            Reply(self.updates, permit, staleness=held.staleness, waited_ns=now_ns - held.since_ns, bucket=bucket)
            for bucket in held.buckets
        ]
        if self._by_rows:
            return [ShardReply(worker, header, payload=self._row_buffers.reply_payload(worker)) for header in headers]
        return [ShardReply(worker, header, self._buckets[header.bucket]) for header in headers]

    def _release_waiting(self) -> list[ShardReply]:
        """The run ends: reply without permits. The gradients of these workers are applied already."""
        return [reply for worker in list(self._held) for reply in self._replies(worker, permit=False)]

    def _release_after_done(self, worker: WorkerName) -> list[ShardReply]:
        self._steps.pop(worker, None)
        return self._release_due()

    def _discard_pending(self, worker: WorkerName) -> None:
        self._pushed[worker] = []
        self._held.pop(worker, None)
