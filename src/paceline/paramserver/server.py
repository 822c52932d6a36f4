"""A parameter server: one shard behind a desk. It needs no framework at all."""

from contextlib import nullcontext

from paceline.errors import RunError
from paceline.paramserver.buckets import BUCKET_BYTES, Bucket, cut
from paceline.paramserver.busy_recorder import BusyRecorder
from paceline.paramserver.rejected_messages import RejectedMessageLog
from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, SyncShard
from paceline.paramserver.transfer import ServerTransfer, SharedRowTransfer, SharedServerTransfer, workers_share_values
from paceline.paramserver.transports.pipe_transport import PipeServerTransport
from paceline.paramserver.transports.server_transport import ServerTransport, Unreachable
from paceline.paramserver.transports.zmq_transport import ZmqServerTransport
from paceline.paramserver.wire import HEADER_BYTES, Request, WireError
from paceline.recording.recorder import clock_ns
from paceline.train.checkpoint import InitialState
from paceline.train.context import Outcome, TaskContext
from paceline.workloads.parameters import Vector

_ROW_BYTES = 8
"""A push carries a gradient and the next index for each row."""


def serve(context: TaskContext) -> Outcome:
    job, model = context.job, context.model
    buckets = cut(model.size, job.servers)[job.index]
    if not buckets:
        raise RunError(f"{job.servers} servers for {model.size} parameters: use fewer")
    desk = _desk(context, buckets)
    try:
        part = slice(buckets[-1].part.start, buckets[0].part.stop)
        beginning = InitialState(context)
        side = _meet(context, part, beginning, desk.address)
        shard = _shard(context, buckets, side, beginning, beginning.velocity(part))
        context.rendezvous.start_together()
        started = clock_ns()
        with BusyRecorder(context.recorder) if job.record else nullcontext():
            _answer_until_done(desk, shard, side)
    finally:
        desk.close()
    return Outcome(updates=shard.updates, started_ns=started, ended_ns=clock_ns())


def _desk(context: TaskContext, buckets: list[Bucket]) -> ServerTransport:
    # A worker has no more on the way than its buckets.
    if context.job.transport == "memory":
        return PipeServerTransport(context.job.workers, messages=len(buckets))
    return ZmqServerTransport(context.job, messages=len(buckets), largest=_largest_message(context, buckets))


def _meet(context: TaskContext, part: slice, beginning: InitialState, address: str) -> ServerTransfer:
    job, model = context.job, context.model
    peers = context.rendezvous.meet({"parameters": address})
    first = beginning.values(part)
    if job.transport == "memory" and model.by_rows:
        return SharedRowTransfer(first, job, model.by_rows.rows(job.batch), peers)
    if job.transport == "memory":
        return SharedServerTransfer(first, part, job, model.size, peers)
    return ServerTransfer(first, steady=workers_share_values(job))


def _shard(
    context: TaskContext, buckets: list[Bucket], side: ServerTransfer, beginning: InitialState, velocity: Vector | None
) -> Shard:
    job = context.job
    plan = ShardPlan(
        buckets=[bucket.within for bucket in buckets],
        lr=job.lr,
        momentum=job.momentum,
        workers=[f"w{number}" for number in range(job.workers)],
        backup=job.backup,
        first=beginning.update,
        velocity=velocity,
        limit=job.update_limit,
        counts=job.index == 0,
        by_rows=bool(context.model.by_rows),
        folds=job.synchronous and job.transport != "memory" and not context.model.by_rows and len(buckets) > 1,
    )
    return SyncShard(side, plan) if job.synchronous else AsyncShard(side, plan)


def _largest_message(context: TaskContext, buckets: list[Bucket]) -> int:
    sparse = context.model.by_rows
    rows = sparse.rows(context.job.batch) if sparse else 0
    return max(_ROW_BYTES * rows, min(BUCKET_BYTES, 4 * buckets[0].size)) + HEADER_BYTES + 1024


def _answer_until_done(desk: ServerTransport, shard: Shard, side: ServerTransfer) -> None:
    complaints = RejectedMessageLog()
    while not shard.done:
        worker = desk.next_sender()
        try:
            answers = shard.handle(worker, *Request.unpack(desk.message()))
        except WireError as error:
            complaints.note(worker, error)
            continue
        for answer in answers:
            values = answer.payload if answer.part is None else side.deliver(answer.worker, answer.part)
            try:
                desk.answer(answer.worker, answer.reply.head(), values)
            except Unreachable as error:
                complaints.note(answer.worker, error)
    complaints.close()
