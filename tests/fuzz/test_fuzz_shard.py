"""The parameter server's decisions, given whatever a worker with the run's key may send."""

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

SIZE = 12
WORKERS = ["w0", "w1", "w2"]
THIRDS = (slice(8, 12), slice(4, 8), slice(0, 4))
SENDERS = [b"w0", b"w1", b"w2", b"w3", b"", b"\0\xff", b"w" * 255]


def side() -> ServerTransfer:
    return ServerTransfer(np.zeros(SIZE, np.float32), steady=True)


def side_with_lanes() -> ServerTransfer:
    """Rows through memory, in which workers may have written anything."""
    made, chance = side(), np.random.default_rng(1)
    rooms = [chance.integers(-3, SIZE + 3, RowBuffer.room(SIZE)).astype(np.int32).view(np.float32) for _ in WORKERS]
    made.lanes = ServerRowBuffers(
        made.values, {n.encode(): RowBuffer(room) for n, room in zip(WORKERS, rooms, strict=True)}
    )
    return made


def plan(**fields: object) -> ShardPlan:
    return ShardPlan(**{"buckets": THIRDS, "lr": 0.5, "workers": WORKERS, **fields})  # type: ignore[arg-type]


SHARDS: dict[str, Callable[[], Shard]] = {
    "async": lambda: AsyncShard(side(), plan(limit=50, momentum=0.9)),
    "sync": lambda: SyncShard(side(), plan()),
    "sync, folding": lambda: SyncShard(side(), plan(folds=True)),
    "async rows": lambda: AsyncShard(side(), plan(by_rows=True)),
    "sync rows": lambda: SyncShard(side(), plan(by_rows=True)),
    "sync rows in memory": lambda: SyncShard(side_with_lanes(), plan(by_rows=True)),
}
numbers = np.arange(4, dtype=np.int32).tobytes()
odd = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32).tobytes()
GOOD = [
    *(Request(op).head() for op in Op),
    *(Request(Op.PUSH, 0, bucket).head() + payload for bucket in range(3) for payload in (bytes(16), odd)),
    *(Request(Op.PULL, 0, bucket).head() for bucket in range(3)),
    Request(Op.PULL_ROWS, 0, 4).head() + numbers,
    Request(Op.PUSH_ROWS, 0, 4).head() + odd + numbers,
    Request(Op.PUSH_ROWS, 0, 0).head() + bytes(16),
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("kind", SHARDS)
@quick_and_thorough(3_000)
def test_whatever_comes_is_answered_or_refused_and_what_is_refused_changes_nothing(kind: str, cases: int) -> None:
    chance, shard, refused = random.Random(2), SHARDS[kind](), 0
    for number, data in enumerate(mutants([*GOOD, *GOOD], cases)):
        if number % 500 == 0:
            shard = SHARDS[kind]()  # Whoever was told to stop, or that all have left, has little left to decide.
        frames = [data] if chance.random() < 0.7 else [data[:20], data[20:]]
        before = shard.values.tobytes(), shard.updates
        try:
            request, payload = Request.unpack(frames)
            if chance.random() < 0.5:
                request = msgspec.structs.replace(request, version=shard.updates)
            answers = shard.handle(chance.choice(SENDERS[: chance.choice((3, 7))]), request, payload)
        except WireError:
            refused += 1
            assert (shard.values.tobytes(), shard.updates) == before
            continue
        for answer in answers:
            assert answer.worker.decode() in WORKERS
            answer.reply.head()
    assert 0 < refused < cases


@pytest.mark.parametrize("first", [Op.PUSH, Op.PUSH_ROWS])
@pytest.mark.parametrize("by_rows", [False, True])
def test_an_update_is_never_made_of_rows_and_buckets(first: Op, by_rows: bool) -> None:
    """Once it was, and the server fell over what it found when the last worker had pushed."""
    shard = SyncShard(side(), plan(by_rows=by_rows))
    both = {Op.PUSH: bytes(16), Op.PUSH_ROWS: bytes(16) + numbers}
    refused = 0
    for worker, op in zip((b"w0", b"w1", b"w2"), (first, *(op for op in both if op != first), first), strict=True):
        shard.handle(worker, Request(Op.PULL_ROWS, bucket=4), numbers)
        try:
            shard.handle(worker, Request(op, bucket=4 if op is Op.PUSH_ROWS else 0), both[op])
        except WireError:
            refused += 1
    assert refused in (1, 2)


def test_a_gradient_that_comes_too_late_is_not_folded_in() -> None:
    """Once it was: values that all the others had agreed on then moved by it."""
    shard = SyncShard(side(), plan(buckets=(slice(0, SIZE),), folds=True, lr=1.0))
    push = Request(Op.PUSH, 0, 0)
    for worker in (b"w0", b"w1", b"w2"):
        shard.handle(worker, push, np.ones(SIZE, np.float32).tobytes())
    (answer,) = shard.handle(b"w1", push, np.full(SIZE, 100, np.float32).tobytes())
    assert answer.reply.update == 1
    for worker in (b"w0", b"w1", b"w2"):
        shard.handle(worker, Request(Op.PUSH, 1, 0), np.ones(SIZE, np.float32).tobytes())
    assert shard.values.tolist() == [-2.0] * SIZE
