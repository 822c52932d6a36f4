"""A parameter server: one shard behind a ZeroMQ ROUTER. It needs no framework at all."""

import logging

import zmq

from paceline.engines.torch.curve import guard
from paceline.engines.torch.frames import HEARTBEAT_MS, LINGER_MS, ZERO_COPY_BYTES, receive, send
from paceline.engines.torch.shard import SHARDS, Answer, Shard
from paceline.engines.torch.wire import HEADER_BYTES, Request, WireError
from paceline.train.context import Outcome, TaskContext
from paceline.train.flat import flatten, shards
from paceline.train.recorder import clock_ns

_log = logging.getLogger(__name__)
_MOST_IO_THREADS = 4


def serve(context: TaskContext) -> Outcome:
    job = context.job
    shard = _shard(context)
    # Most of a server's work is in these threads; with one for all, workers queue for it while a core idles.
    sockets = zmq.Context(io_threads=min(job.workers, _MOST_IO_THREADS))
    router = sockets.socket(zmq.ROUTER)
    router.linger = LINGER_MS
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.ROUTER_HANDOVER, 1)
    router.setsockopt(zmq.MAXMSGSIZE, shard.values.nbytes + HEADER_BYTES + 1024)
    router.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    authenticator = guard(sockets, router, job)
    port = router.bind_to_random_port(f"tcp://{job.address}")
    try:
        context.rendezvous.meet({"parameters": f"tcp://{job.address}:{port}"})
        context.rendezvous.start_together()
        started = clock_ns()
        _answer_until_done(router, shard)
    finally:
        authenticator.stop()
        router.close()
        sockets.term()
    return Outcome(updates=shard.updates, started_ns=started, ended_ns=clock_ns())


def _shard(context: TaskContext) -> Shard:
    job, model = context.job, context.workload.model
    values = flatten(model.initial(job.seed))
    mine = shards(values.size, job.servers)[job.index]
    return SHARDS[job.strategy](
        values[mine].copy(),
        lr=job.lr,
        workers=[f"w{number}" for number in range(job.workers)],
        limit=job.update_limit,
        counts=job.index == 0,
    )


def _answer_until_done(router: "zmq.Socket[bytes]", shard: Shard) -> None:
    large = shard.values.nbytes >= ZERO_COPY_BYTES
    while not shard.done:
        worker = router.recv()
        try:
            message = _only_frame(router, large=large)
            answers = shard.handle(worker, *Request.unpack(message))
        except WireError as error:
            _log.warning("dropped a message from %r: %s", worker, error)
            continue
        for answer in answers:
            _send(router, shard, answer, large=large)


def _only_frame(router: "zmq.Socket[bytes]", *, large: bool) -> bytes | memoryview:
    """What follows the sender's name; a message of any other number of frames is read to its end and refused."""
    frames = []
    while router.getsockopt(zmq.RCVMORE):
        frames.append(receive(router, large=large))
    if len(frames) != 1:
        raise WireError(f"{len(frames)} frames")
    return frames[0]


def _send(router: "zmq.Socket[bytes]", shard: Shard, answer: Answer, *, large: bool) -> None:
    # pack() copies: the values change with the next update, and the socket may not have sent these by then.
    message = answer.reply.pack(shard.values if answer.with_values else b"")
    try:
        router.send(answer.worker, zmq.SNDMORE)
        send(router, message, large=large)
    except zmq.ZMQError as error:
        _log.warning("worker %r is gone: %s", answer.worker, error)
