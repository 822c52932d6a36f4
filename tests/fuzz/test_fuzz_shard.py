"""The logic of a parameter server under arbitrary requests of a worker that has the key of the run."""

import random
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from fuzz.mutations import mutants, quick_and_thorough
from paceline.paramserver.row_buffers import RowBuffer, ServerRowBuffers
from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, SyncShard
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Op, Request, WireError
from support.optimizers import sgd

SIZE = 12
WORKERS = ["w0", "w1", "w2"]
THIRDS = (slice(8, 12), slice(4, 8), slice(0, 4))
SENDERS = [b"w0", b"w1", b"w2", b"w3", b"", b"\0\xff", b"w" * 255]


def make_transfer() -> ServerTransfer:
    return ServerTransfer(np.zeros(SIZE, np.float32), zero_copy=True)


def make_shared_row_transfer() -> ServerTransfer:
    """Rows through shared memory that contains arbitrary values, as a faulty worker may have written them."""
    transfer, random_values = make_transfer(), np.random.default_rng(1)
    buffers = {}
    for name in WORKERS:
        memory = random_values.integers(-3, SIZE + 3, RowBuffer.memory_size(SIZE)).astype(np.int32).view(np.float32)
        buffers[name.encode()] = RowBuffer(memory)
    transfer.row_buffers = ServerRowBuffers(transfer.values, buffers)
    return transfer


def make_plan(**fields: object) -> ShardPlan:
    return ShardPlan(**{"buckets": THIRDS, "optimizer": sgd(0.5), "workers": WORKERS, **fields})  # type: ignore[arg-type]


SHARDS: dict[str, Callable[[], Shard]] = {
    "async": lambda: AsyncShard(make_transfer(), make_plan(update_limit=50, optimizer=sgd(0.5, 0.9))),
    "sync": lambda: SyncShard(make_transfer(), make_plan()),
    "sync, accumulating": lambda: SyncShard(make_transfer(), make_plan(accumulates=True)),
    "async rows": lambda: AsyncShard(make_transfer(), make_plan(by_rows=True)),
    "sync rows": lambda: SyncShard(make_transfer(), make_plan(by_rows=True)),
    "sync rows in memory": lambda: SyncShard(make_shared_row_transfer(), make_plan(by_rows=True)),
}
INDICES = np.arange(4, dtype=np.int32).tobytes()
NON_FINITE = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32).tobytes()
VALID = [
    *(Request(op).header() for op in Op),
    *(Request(Op.PUSH, 0, bucket).header() + payload for bucket in range(3) for payload in (bytes(16), NON_FINITE)),
    *(Request(Op.PULL, 0, bucket).header() for bucket in range(3)),
    Request(Op.PULL_ROWS, 0, 4).header() + INDICES,
    Request(Op.PUSH_ROWS, 0, 4).header() + NON_FINITE + INDICES,
    Request(Op.PUSH_ROWS, 0, 0).header() + bytes(16),
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("kind", SHARDS)
@quick_and_thorough(3_000)
def test_every_request_is_answered_or_refused_and_a_refused_one_changes_nothing(kind: str, cases: int) -> None:
    rng, shard, refused = random.Random(2), SHARDS[kind](), 0
    for number, data in enumerate(mutants([*VALID, *VALID], cases)):
        if number % 500 == 0:
            shard = SHARDS[kind]()  # Start again: after STOP, or with all workers done, most requests have no effect.
        frames = [data] if rng.random() < 0.7 else [data[:20], data[20:]]
        before = shard.values.tobytes(), shard.updates
        try:
            request, payload = Request.unpack(frames)
            if rng.random() < 0.5:
                request = msgspec.structs.replace(request, version=shard.updates)
            replies = shard.handle(rng.choice(SENDERS[: rng.choice((3, 7))]), request, payload)
        except WireError:
            refused += 1
            assert (shard.values.tobytes(), shard.updates) == before
            continue
        for reply in replies:
            assert reply.worker.decode() in WORKERS
            reply.reply.header()
    assert 0 < refused < cases


@pytest.mark.parametrize("first", [Op.PUSH, Op.PUSH_ROWS])
@pytest.mark.parametrize("by_rows", [False, True])
def test_update_never_mixes_rows_and_buckets(first: Op, by_rows: bool) -> None:
    """Regression test: the server crashed when the last worker had pushed the other kind."""
    shard = SyncShard(make_transfer(), make_plan(by_rows=by_rows))
    payloads = {Op.PUSH: bytes(16), Op.PUSH_ROWS: bytes(16) + INDICES}
    refused = 0
    for worker, op in zip((b"w0", b"w1", b"w2"), (first, *(op for op in payloads if op != first), first), strict=True):
        shard.handle(worker, Request(Op.PULL_ROWS, bucket=4), INDICES)
        try:
            shard.handle(worker, Request(op, bucket=4 if op is Op.PUSH_ROWS else 0), payloads[op])
        except WireError:
            refused += 1
    assert refused in (1, 2)


def test_late_gradient_is_not_accumulated() -> None:
    """Regression test: a late gradient changed the values of an update that was already complete."""
    shard = SyncShard(make_transfer(), make_plan(buckets=(slice(0, SIZE),), accumulates=True, optimizer=sgd(1.0)))
    push = Request(Op.PUSH, 0, 0)
    for worker in (b"w0", b"w1", b"w2"):
        shard.handle(worker, push, np.ones(SIZE, np.float32).tobytes())
    (late,) = shard.handle(b"w1", push, np.full(SIZE, 100, np.float32).tobytes())
    assert late.reply.update == 1
    for worker in (b"w0", b"w1", b"w2"):
        shard.handle(worker, Request(Op.PUSH, 1, 0), np.ones(SIZE, np.float32).tobytes())
    assert shard.values.tolist() == [-2.0] * SIZE
