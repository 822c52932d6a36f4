"""A parameter server: serves one shard to the workers over a transport. It imports no ML framework."""

from contextlib import nullcontext

from paceline.errors import RunError
from paceline.paramserver.bounded_shard import BoundedShard
from paceline.paramserver.buckets import BUCKET_BYTES, Bucket, cut_buckets
from paceline.paramserver.busy_recorder import BusyRecorder
from paceline.paramserver.compressed_transfer import CompressedServerTransfer
from paceline.paramserver.rejected_messages import RejectedMessageLog
from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, SyncShard
from paceline.paramserver.transfer import ServerTransfer, SharedRowTransfer, SharedServerTransfer, workers_share_values
from paceline.paramserver.transports.pipe_transport import PipeServerTransport
from paceline.paramserver.transports.server_transport import ServerTransport, Unreachable
from paceline.paramserver.transports.zmq_transport import ZmqServerTransport
from paceline.paramserver.wire import HEADER_BYTES, Request, WireError
from paceline.plan.roles import WORKER, task_names
from paceline.recording.recorder import clock_ns
from paceline.spec.training import read_staleness_bound
from paceline.train.block_optimizer import sections_of
from paceline.train.checkpoint import InitialState
from paceline.train.compression import compression_of
from paceline.train.context import Outcome, TaskContext

_ROW_BYTES = 8
"""For each row, a push carries a gradient (4 bytes) and the index of a row that is needed next (4 bytes)."""
_SPARE_BYTES = 1024
"""Margin above the largest valid message, so that the limit never rejects a valid one."""


def serve(context: TaskContext) -> Outcome:
    """Serve one shard of the parameters until all workers have finished."""
    job, model = context.job, context.model
    buckets = cut_buckets(model.size, job.servers)[job.index]
    if not buckets:
        raise RunError(f"{job.servers} servers are too many for {model.size} parameters: use fewer servers")
    transport = _open_transport(context, buckets)
    try:
        part = slice(buckets[-1].in_model.start, buckets[0].in_model.stop)
        initial = InitialState(context)
        transfer = _meet_workers(context, part, initial, transport.address)
        shard = _make_shard(context, buckets, transfer, initial, part)
        context.rendezvous.start_together()
        started_ns = clock_ns()
        with BusyRecorder(context.recorder) if job.record else nullcontext():
            handle_requests(transport, shard, transfer)
    finally:
        transport.close()
    return Outcome(updates=shard.updates, started_ns=started_ns, ended_ns=clock_ns())


def _open_transport(context: TaskContext, buckets: list[Bucket]) -> ServerTransport:
    # A worker has at most one request per bucket in flight.
    if context.job.transport == "memory":
        return PipeServerTransport(context.job.workers, messages=len(buckets))
    return ZmqServerTransport(
        context.job, messages=len(buckets), max_message_bytes=_largest_message_bytes(context, buckets)
    )


def _meet_workers(context: TaskContext, part: slice, initial: InitialState, address: str) -> ServerTransfer:
    """Announce the server's address, wait for the workers' addresses, and map their memory if it is shared."""
    job, model = context.job, context.model
    peers = context.rendezvous.exchange_addresses({"parameters": address})
    values = initial.values(part)
    if job.transport == "memory" and model.by_rows:
        return SharedRowTransfer(values, job, model.by_rows.rows(job.batch), peers)
    if job.transport == "memory":
        return SharedServerTransfer(values, part, job, model.size, peers)
    if compression := compression_of(job):
        return CompressedServerTransfer(values, part.start, model.parameters, compression)
    return ServerTransfer(values, zero_copy=workers_share_values(job))


def _make_shard(
    context: TaskContext,
    buckets: list[Bucket],
    transfer: ServerTransfer,
    initial: InitialState,
    part: slice,
) -> Shard:
    job = context.job
    plan = ShardPlan(
        buckets=[bucket.in_shard for bucket in buckets],
        optimizer=job.optimizer,
        sections=sections_of(job.optimizer, context.model.parameters, part),
        workers=task_names(WORKER, job.workers),
        backup=job.backup,
        first_update=initial.update,
        state=initial.optimizer_state(part),
        update_limit=job.update_limit,
        limits_updates=job.index == 0,
        by_rows=bool(context.model.by_rows),
        has_whole_gradient=job.servers == 1,
        accumulates=job.synchronous and job.transport != "memory" and not context.model.by_rows and len(buckets) > 1,
    )
    if job.synchronous:
        return SyncShard(transfer, plan)
    bound = read_staleness_bound(str(job.strategy_options.get("staleness_bound", "inf")))
    return AsyncShard(transfer, plan) if bound is None else BoundedShard(transfer, plan, bound)


def _largest_message_bytes(context: TaskContext, buckets: list[Bucket]) -> int:
    """The size above which a message from a worker of this run is rejected."""
    sparse = context.model.by_rows
    rows = sparse.rows(context.job.batch) if sparse else 0
    return max_message_bytes(max(_ROW_BYTES * rows, min(BUCKET_BYTES, 4 * buckets[0].size)))


def max_message_bytes(payload: int) -> int:
    """The size above which a message is rejected without being read, if the largest valid payload has this size."""
    return payload + HEADER_BYTES + _SPARE_BYTES


def handle_requests(transport: ServerTransport, shard: Shard, transfer: ServerTransfer) -> None:
    """The server's main loop: read a request, let the shard decide, send the replies that are due."""
    rejected = RejectedMessageLog()
    while not shard.done:
        worker = transport.next_sender()
        try:
            replies = shard.handle(worker, *Request.unpack(transport.read_request()))
        except WireError as error:
            rejected.add(worker, error)
            continue
        for reply in replies:
            payload = reply.payload if reply.part is None else transfer.reply_payload(reply.worker, reply.part)
            try:
                transport.send_reply(reply.worker, reply.reply.header(), payload)
            except Unreachable as error:
                rejected.add(reply.worker, error)
    rejected.close()
