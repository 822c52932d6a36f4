"""A parameter server: one shard behind a ZeroMQ ROUTER. It needs no framework at all."""

import logging
import os
import secrets

import zmq

from paceline.engines.torch.buckets import BUCKET_BYTES, Bucket, cut
from paceline.engines.torch.curve import guard
from paceline.engines.torch.diary import Diary
from paceline.engines.torch.frames import HEARTBEAT_MS, LINGER_MS, SILENCE_MS, receive, send
from paceline.engines.torch.neighbours import ServerSide, SharedRowsSide, SharedServerSide
from paceline.engines.torch.shard import Answer, AsyncShard, Plan, Shard, SyncShard
from paceline.engines.torch.wire import HEADER_BYTES, Buffer, Request, WireError
from paceline.errors import RunError
from paceline.train.context import Job, Outcome, TaskContext
from paceline.train.recorder import clock_ns

_log = logging.getLogger(__name__)
_MOST_IO_THREADS = 4
_ROW_BYTES = 8
"""A push carries a gradient and the next index for each row."""


def serve(context: TaskContext) -> Outcome:
    if context.workload.torch:
        # Only a user's own module has to be built to know its first values.
        from paceline.engines.torch.own import with_model

        context = with_model(context)
    job, model = context.job, context.model
    buckets = cut(model.size, job.servers)[job.index]
    if not buckets:
        raise RunError(f"{job.servers} servers for {model.size} parameters: use fewer")
    # Most of a server's work is in these threads; with one for all, workers queue for it while a core idles.
    sockets = zmq.Context(io_threads=min(job.workers, _MOST_IO_THREADS))
    router = sockets.socket(zmq.ROUTER)
    router.linger = LINGER_MS
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.ROUTER_HANDOVER, 1)
    router.setsockopt(zmq.MAXMSGSIZE, _largest_message(context, buckets))
    router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    router.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
    authenticator = guard(sockets, router, job)
    address = _bind(router, job)
    try:
        side = _meet(context, buckets, address)
        shard = _shard(context, buckets, side)
        context.rendezvous.start_together()
        started = clock_ns()
        _answer_until_done(router, shard, side, Diary(context.recorder))
    finally:
        authenticator.stop()
        router.close()
        sockets.term()
    return Outcome(updates=shard.updates, started_ns=started, ended_ns=clock_ns())


def _bind(router: "zmq.Socket[bytes]", job: Job) -> str:
    """Where workers find it. Neighbours have a shorter way than through the network: a local socket without a file."""
    if job.transport == "memory":
        address = f"ipc://@paceline-{os.getpid()}-{secrets.token_hex(8)}"
        router.bind(address)
        return address
    return f"tcp://{job.address}:{router.bind_to_random_port(f'tcp://{job.address}')}"


def _meet(context: TaskContext, buckets: list[Bucket], address: str) -> ServerSide:
    job, model = context.job, context.model
    peers = context.rendezvous.meet({"parameters": address})
    part = slice(buckets[-1].part.start, buckets[0].part.stop)
    first = model.first(job.seed, part)
    if job.transport == "memory" and model.by_rows:
        return SharedRowsSide(first, job, model.by_rows.rows(job.batch), peers)
    if job.transport == "memory":
        return SharedServerSide(first, part, job, model.size, peers)
    return ServerSide(first, steady=job.synchronous)


def _shard(context: TaskContext, buckets: list[Bucket], side: ServerSide) -> Shard:
    job = context.job
    plan = Plan(
        buckets=[bucket.within for bucket in buckets],
        lr=job.lr,
        momentum=job.momentum,
        workers=[f"w{number}" for number in range(job.workers)],
        limit=job.update_limit,
        counts=job.index == 0,
        folds=job.synchronous and job.transport != "memory" and not context.model.by_rows and len(buckets) > 1,
    )
    return SyncShard(side, plan) if job.synchronous else AsyncShard(side, plan)


def _largest_message(context: TaskContext, buckets: list[Bucket]) -> int:
    sparse = context.model.by_rows
    rows = sparse.rows(context.job.batch) if sparse else 0
    return max(_ROW_BYTES * rows, min(BUCKET_BYTES, 4 * buckets[0].size)) + HEADER_BYTES + 1024


def _answer_until_done(router: "zmq.Socket[bytes]", shard: Shard, side: ServerSide, diary: Diary) -> None:
    while not shard.done:
        # With a request waiting, taking it is work; without one, the time until it comes is not.
        is_waiting = int(router.getsockopt(zmq.EVENTS)) & zmq.POLLIN
        worker = router.recv()
        if not is_waiting:
            diary.idle()
        try:
            answers = shard.handle(worker, *_request(router))
        except WireError as error:
            _log.warning("dropped a message from %r: %s", worker, error)
            continue
        for answer in answers:
            _send(router, side, answer)
        diary.busy()
    diary.close()


def _request(router: "zmq.Socket[bytes]") -> tuple[Request, Buffer]:
    """What follows the sender's name."""
    if not router.getsockopt(zmq.RCVMORE):
        raise WireError("an empty message")
    return Request.unpack(receive(router))


def _send(router: "zmq.Socket[bytes]", side: ServerSide, answer: Answer) -> None:
    values = answer.payload if answer.part is None else side.deliver(answer.worker, answer.part)
    try:
        router.send(answer.worker, zmq.SNDMORE)
        send(router, answer.reply.head(), values)
    except zmq.ZMQError as error:
        _log.warning("worker %r is gone: %s", answer.worker, error)
