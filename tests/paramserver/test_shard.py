"""The logic of a parameter server, without any transport: replies, values and update counts."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.paramserver.norm_exchange import pack_norm, unpack_norm
from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, SyncShard
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Op, Reply, Request, WireError
from paceline.spec.optimizer import Optimizer
from support.optimizers import TEXTS, optimizer, sgd

WORKERS = ["w0", "w1", "w2"]
WHOLE = (slice(0, 4),)
HALVES = (slice(2, 4), slice(0, 2))


def make_shard(
    kind: type[Shard],
    update_limit: int | None = None,
    buckets: tuple[slice, ...] = WHOLE,
    momentum: float = 0.0,
    by_rows: bool = False,
) -> Shard:
    plan = ShardPlan(
        buckets=buckets, optimizer=sgd(0.5, momentum), workers=WORKERS, update_limit=update_limit, by_rows=by_rows
    )
    return kind(transfer(), plan)


def transfer() -> ServerTransfer:
    return ServerTransfer(np.zeros(4, np.float32), zero_copy=True)


def push(server: Shard, worker: str, value: float, version: int | None = None, bucket: int = 0) -> dict[str, Reply]:
    """Push one bucket of a gradient of equal values; returns the replies by worker.

    By default the gradient of a synchronous run belongs to the current update, that of an asynchronous run to update 0.
    """
    if version is None:
        version = server.updates if isinstance(server, SyncShard) else 0
    return dict(push_for_replies(server, worker, value, version, bucket))


def push_for_replies(
    server: Shard, worker: str, value: float, version: int, bucket: int = 0
) -> list[tuple[str, Reply]]:
    """Push one bucket of a gradient of equal values; returns each reply with its worker."""
    part = server._buckets[bucket]
    gradient = np.full(part.stop - part.start, value, np.float32).tobytes()
    replies = server.handle(worker.encode(), Request(Op.PUSH, version, bucket), gradient)
    return [(sent.worker.decode(), sent.reply) for sent in replies]


def send(server: Shard, worker: str, op: Op) -> dict[str, Reply]:
    replies = server.handle(worker.encode(), Request(op), b"")
    return {reply.worker.decode(): reply.reply for reply in replies}


def test_async_applies_every_push_and_reports_its_staleness() -> None:
    server = make_shard(AsyncShard)
    assert push(server, "w0", 1.0)["w0"] == Reply(1, permit=True, staleness=0)
    assert push(server, "w1", 1.0)["w1"] == Reply(2, permit=True, staleness=1)
    assert push(server, "w1", 1.0, version=2)["w1"].staleness == 0
    assert server.values.tolist() == [-1.5] * 4


def test_sync_waits_for_all_workers_and_applies_the_mean() -> None:
    server = make_shard(SyncShard)
    assert push(server, "w2", 3.0) == {}
    assert push(server, "w0", 1.0) == {}
    replies = push(server, "w1", 2.0)
    assert replies.keys() == set(WORKERS)
    assert all(reply.update == 1 and reply.permit for reply in replies.values())
    assert replies["w2"].waited_ns >= replies["w0"].waited_ns >= replies["w1"].waited_ns
    assert server.values.tolist() == [-1.0] * 4


def test_sync_result_does_not_depend_on_the_order_of_arrival() -> None:
    first, second = make_shard(SyncShard), make_shard(SyncShard)
    values = {"w0": 0.1, "w1": 1e8, "w2": -1e8}
    for server, order in ((first, ["w0", "w1", "w2"]), (second, ["w2", "w0", "w1"])):
        for worker in order:
            push(server, worker, values[worker])
    assert first.values.tobytes() == second.values.tobytes()


def test_stop_drops_gradients_of_an_incomplete_update() -> None:
    server = make_shard(SyncShard)
    push(server, "w1", 1.0)
    replies = send(server, "w0", Op.STOP)
    assert not replies["w1"].permit
    assert not replies["w1"].applied
    late = push(server, "w2", 1.0)["w2"]
    assert not late.permit
    assert not late.applied
    assert server.updates == 0
    assert server.values.tolist() == [0.0] * 4


def test_chief_is_answered_only_after_all_other_workers_are_done() -> None:
    server = make_shard(AsyncShard)
    assert send(server, "w0", Op.AWAIT_DONE) == {}
    assert send(server, "w1", Op.DONE) == {}
    assert send(server, "w2", Op.DONE).keys() == {"w0"}
    assert not server.done
    send(server, "w0", Op.DONE)
    assert server.done


@given(st.lists(st.sampled_from(WORKERS), max_size=60), st.integers(3, 20))
def test_exactly_the_requested_number_of_updates_is_applied(order: list[str], limit: int) -> None:
    """However fast each worker is: never more updates than the limit, and every worker makes at least one step."""
    server = make_shard(AsyncShard, limit)
    may_step: dict[str, bool] = {}
    stepped = set()
    for worker in [*order, *WORKERS * limit]:
        if worker not in may_step:
            may_step[worker] = send(server, worker, Op.START)[worker].permit
        elif may_step[worker]:
            stepped.add(worker)
            may_step[worker] = push(server, worker, 1.0)[worker].permit
    assert server.updates == limit
    assert stepped == set(WORKERS)


def test_invalid_requests_are_refused() -> None:
    server = make_shard(AsyncShard)
    with pytest.raises(WireError, match="unknown worker"):
        server.handle(b"intruder", Request(Op.PULL), b"")
    with pytest.raises(WireError, match="12 bytes, the bucket has 16"):
        server.handle(b"w0", Request(Op.PUSH), np.zeros(3, np.float32).tobytes())
    sync_server = make_shard(SyncShard)
    push(sync_server, "w0", 1.0)
    with pytest.raises(WireError, match="twice"):
        push(sync_server, "w0", 1.0)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_any_bytes_are_handled_or_a_wire_error(header: bytes, payload: bytes) -> None:
    for kind in (AsyncShard, SyncShard):
        try:
            for frames in ([header, payload], [header + payload]):
                for reply in make_shard(kind).handle(b"w0", *Request.unpack(frames)):
                    reply.reply.header()
        except WireError:
            pass


@given(st.sampled_from(list(Op)), st.binary(max_size=64))
def test_any_payload_is_handled_or_a_wire_error(op: Op, payload: bytes) -> None:
    for kind in (AsyncShard, SyncShard):
        server = make_shard(kind)
        try:
            for reply in server.handle(b"w0", Request(op), payload):
                reply.reply.header()
        except WireError:
            assert server.updates == 0


@given(st.integers(0, 2**63), st.booleans(), st.booleans(), st.integers(-1, 2**62), st.integers(0, 2**62))
def test_unpack_returns_the_packed_reply(update: int, permit: bool, applied: bool, stale: int, waited: int) -> None:
    reply = Reply(update, permit, applied, stale, waited)
    for frames in ([reply.header() + b"values"], [reply.header(), b"values"]):
        unpacked, values = Reply.unpack(frames)
        assert unpacked == reply
        assert bytes(values) == b"values"


def test_server_applies_momentum() -> None:
    server = make_shard(AsyncShard, momentum=0.5)
    push(server, "w0", 1.0)  # velocity 1, values -0.5
    push(server, "w0", 1.0)  # velocity 1.5, values -1.25
    assert server.values.tolist() == [-1.25] * 4


def test_async_update_counts_with_its_last_bucket_in_any_order() -> None:
    server = make_shard(AsyncShard, buckets=HALVES)
    assert push(server, "w0", 1.0, bucket=1)["w0"] == Reply(0, permit=True, bucket=1)
    assert push(server, "w1", 1.0, bucket=0)["w1"].update == 0
    assert push(server, "w0", 1.0, bucket=0)["w0"] == Reply(1, permit=True, staleness=0, bucket=0)
    assert push(server, "w1", 1.0, bucket=1)["w1"] == Reply(2, permit=True, staleness=1, bucket=1)
    assert server.values.tolist() == [-1.0] * 4


@pytest.mark.parametrize("accumulates", [False, True])
def test_sync_update_counts_when_all_its_buckets_are_applied(accumulates: bool) -> None:
    plan = ShardPlan(buckets=HALVES, optimizer=sgd(1.0), workers=WORKERS, accumulates=accumulates)
    server = SyncShard(transfer(), plan)
    for worker, value in (("w0", 1.0), ("w1", 2.0), ("w2", 3.0)):
        assert push(server, worker, value, bucket=1) == {} or worker == "w2"
    assert server.values.tolist() == [-2.0, -2.0, 0.0, 0.0]
    assert server.updates == 0
    for worker, value in (("w2", 3.0), ("w1", 2.0)):
        push(server, worker, value, bucket=0)
    replies = push(server, "w0", 1.0, bucket=0)
    assert {reply.update for reply in replies.values()} == {1}
    assert server.values.tolist() == [-2.0] * 4


@pytest.mark.parametrize("accumulates", [False, True])
def test_stop_between_buckets_leaves_the_values_unchanged(accumulates: bool) -> None:
    plan = ShardPlan(buckets=HALVES, optimizer=sgd(1.0), workers=WORKERS, accumulates=accumulates)
    server = SyncShard(transfer(), plan)
    push(server, "w1", 1.0, bucket=0)
    push(server, "w1", 1.0, bucket=1)
    replies = server.handle(b"w0", Request(Op.STOP), b"")
    assert [reply.reply.applied for reply in replies if reply.worker == b"w1"] == [False, False]
    assert not server.values.any()


def indices(*numbers: int) -> bytes:
    return np.array(numbers, np.int32).tobytes()


def gradients(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def pull_rows(server: Shard, worker: bytes, *numbers: int) -> list[float]:
    (reply,) = server.handle(worker, Request(Op.PULL_ROWS, bucket=len(numbers)), indices(*numbers))
    return list(np.frombuffer(reply.payload, np.float32))


def test_push_applies_to_the_rows_requested_last_and_returns_the_next_ones() -> None:
    server = make_shard(AsyncShard, by_rows=True)
    assert pull_rows(server, b"w0", 1, 3, 1) == [0.0, 0.0, 0.0]
    (reply,) = server.handle(b"w0", Request(Op.PUSH_ROWS, 0, bucket=2), gradients(1.0, 2.0, 3.0) + indices(3, 0))
    assert server.values.tolist() == [0.0, -2.0, 0.0, -1.0]
    assert reply.reply == Reply(1, permit=True, staleness=0, bucket=2)
    assert np.frombuffer(reply.payload, np.float32).tolist() == [-1.0, 0.0]
    server.handle(b"w0", Request(Op.PUSH_ROWS, 1, bucket=0), gradients(2.0, 2.0))
    assert server.values.tolist() == [-1.0, -2.0, 0.0, -2.0]


def test_sync_update_of_rows_applies_the_mean() -> None:
    server = make_shard(SyncShard, by_rows=True)
    for worker, number in ((b"w0", 0), (b"w1", 1), (b"w2", 0)):
        pull_rows(server, worker, number)
    push = Request(Op.PUSH_ROWS, 0, bucket=1)
    assert server.handle(b"w0", push, gradients(3.0) + indices(1)) == []
    assert server.handle(b"w1", push, gradients(3.0) + indices(0)) == []
    replies = server.handle(b"w2", push, gradients(6.0) + indices(2))
    assert server.values.tolist() == [-1.5, -0.5, 0.0, 0.0]
    rows = {reply.worker: np.frombuffer(reply.payload, np.float32).tolist() for reply in replies}
    assert rows == {b"w0": [-0.5], b"w1": [-1.5], b"w2": [0.0]}
    assert {reply.reply.update for reply in replies} == {1}


def test_rows_outside_of_the_shard_or_never_pulled_are_refused() -> None:
    server = make_shard(AsyncShard, by_rows=True)
    with pytest.raises(WireError, match="not pulled"):
        server.handle(b"w0", Request(Op.PUSH_ROWS), gradients(1.0))
    for numbers in ((4,), (-1,)):
        with pytest.raises(WireError, match="outside of this shard"):
            pull_rows(server, b"w0", *numbers)
    pull_rows(server, b"w0", 1)
    for count, payload in ((0, gradients(1.0, 2.0)), (1, gradients(1.0)), (0, b"abc")):
        with pytest.raises(WireError, match="bytes for"):
            server.handle(b"w0", Request(Op.PUSH_ROWS, 0, bucket=count), payload)
    assert not server.values.any()


@given(st.permutations(WORKERS), st.sampled_from(TEXTS), st.sampled_from([None, 0.5]))
def test_accumulating_gradients_gives_the_same_values_as_storing_them(
    order: list[str], text: str, clip: float | None
) -> None:
    values = []
    for accumulates in (False, True):
        rule = optimizer(text, schedule="cosine:warmup=2", clip=clip)
        plan = ShardPlan(buckets=HALVES, optimizer=rule, workers=WORKERS, accumulates=accumulates)
        server = SyncShard(transfer(), plan)
        for update in (1.0, 2.0, 3.0):
            for bucket in (1, 0):
                for worker in order:
                    push(server, worker, update * (1 + WORKERS.index(worker)), version=server.updates, bucket=bucket)
        assert server.updates == 3
        values.append(server.values.tolist())
    assert values[0] == pytest.approx(values[1], rel=1e-5)


@given(st.permutations(WORKERS), st.sampled_from(TEXTS), st.booleans())
def test_two_shards_clip_like_one_that_has_the_whole_gradient(order: list[str], text: str, accumulates: bool) -> None:
    rule = optimizer(text, clip=0.5)
    whole = SyncShard(transfer(), ShardPlan(buckets=HALVES, optimizer=rule, workers=WORKERS))
    plan = ShardPlan(
        buckets=(slice(0, 2),), optimizer=rule, workers=WORKERS, accumulates=accumulates, has_whole_gradient=False
    )
    upper, lower = (SyncShard(ServerTransfer(np.zeros(2, np.float32), zero_copy=True), plan) for _ in HALVES)
    for update in range(3):
        squared_norm = 0.0
        for worker in order:
            for bucket, part in enumerate((upper, lower)):
                value = (1 + update) * (1 + WORKERS.index(worker)) * (bucket - 0.3)
                push(whole, worker, value, bucket=bucket)
                gradient = np.full(2, value, np.float32).tobytes()
                replies = part.handle(worker.encode(), Request(Op.PUSH, update), gradient)
                # Only the last push is answered: the chief gets the norm, and no update is made yet.
                assert [reply.worker for reply in replies] == ([b"w0"] if worker == order[-1] else [])
                squared_norm += sum(unpack_norm(reply.payload) for reply in replies)
                assert part.updates == update
        for part in (upper, lower):
            replies = part.handle(b"w0", Request(Op.CLIP), pack_norm(squared_norm))
            assert sorted(reply.worker for reply in replies) == [b"w0", b"w1", b"w2"]
            assert part.updates == update + 1
    np.testing.assert_allclose(np.concatenate([lower.values, upper.values]), whole.values, rtol=1e-5)


def test_a_norm_is_refused_if_no_update_waits_for_it_or_another_worker_sends_it() -> None:
    plan = ShardPlan(buckets=WHOLE, optimizer=optimizer("sgd", clip=0.5), workers=WORKERS, has_whole_gradient=False)
    server = SyncShard(transfer(), plan)
    with pytest.raises(WireError, match="no update waits"):
        server.handle(b"w0", Request(Op.CLIP), pack_norm(1.0))
    for worker in WORKERS:
        push(server, worker, 1.0)
    for sender, payload, reason in (
        (b"w1", pack_norm(1.0), "chief"),
        (b"w0", b"", "8 bytes"),
        (b"w0", pack_norm(-1.0), "negative"),
    ):
        with pytest.raises(WireError, match=reason):
            server.handle(sender, Request(Op.CLIP), payload)
    assert not server.values.any()
    assert len(server.handle(b"w0", Request(Op.CLIP), pack_norm(4.0))) == len(WORKERS)


def test_only_the_chief_ends_a_run_and_versions_cannot_be_newer_than_the_server() -> None:
    server = make_shard(AsyncShard)
    for op in (Op.STOP, Op.AWAIT_DONE):
        with pytest.raises(WireError, match="not the chief"):
            server.handle(b"w1", Request(op), b"")
    with pytest.raises(WireError, match="the latest is 0"):
        push(server, "w0", 1.0, version=2**64 - 1)
    assert not server.values.any()


@given(
    st.permutations([(worker, bucket) for worker in WORKERS for bucket in (0, 1)]),
    st.integers(0, 5),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from([sgd(0.5), sgd(0.5, 0.9), optimizer("adam"), optimizer("nesterov", clip=0.5)]),
)
def test_restart_of_a_worker_does_not_change_the_result(
    order: list[tuple[str, int]], killed_after: int, update: int, accumulates: bool, rule: Optimizer
) -> None:
    """w1 is killed after some pushes of an update, and repeats its step after its restart."""

    def gradient(worker: str, number: int) -> float:
        return number + 0.25 * (1 + WORKERS.index(worker))

    plan = ShardPlan(buckets=HALVES, optimizer=rule, workers=WORKERS, accumulates=accumulates)
    undisturbed, server = SyncShard(transfer(), plan), SyncShard(transfer(), plan)
    for number in range(3):
        for worker, bucket in order:
            push(undisturbed, worker, gradient(worker, number), bucket=bucket)
        answered: list[tuple[str, int]] = []
        pushed: list[tuple[str, int]] = []
        for worker, bucket in order:
            if number == update and len(pushed) == killed_after:
                reply = send(server, "w1", Op.START)["w1"]
                assert (reply.update, reply.permit) == (server.updates, True)
                answered = [(name, earlier) for name, earlier in answered if name != "w1"]
                for repeated in [earlier for name, earlier in pushed if name == "w1"]:
                    replies = push_for_replies(server, "w1", gradient("w1", number), number, repeated)
                    answered += [(name, reply.bucket) for name, reply in replies]
            replies = push_for_replies(server, worker, gradient(worker, number), number, bucket)
            answered += [(name, reply.bucket) for name, reply in replies]
            pushed.append((worker, bucket))
        # Every worker gets one reply for each bucket, the restarted one as well.
        assert sorted(answered) == sorted((worker, bucket) for worker in WORKERS for bucket in (0, 1))
        assert server.updates == undisturbed.updates == number + 1
    np.testing.assert_allclose(server.values, undisturbed.values, rtol=1e-6)


def test_restarted_worker_keeps_its_unused_step_permit() -> None:
    server = make_shard(AsyncShard, update_limit=4)
    assert all(send(server, worker, Op.START)[worker].permit for worker in WORKERS)
    assert send(server, "w1", Op.START)["w1"].permit  # Restarted: it uses no second permit.
    while push(server, "w0", 1.0)["w0"].permit:
        pass
    for worker in ("w1", "w2"):
        assert not push(server, worker, 1.0)[worker].permit
    assert server.updates == 4
    assert not send(server, "w1", Op.START)["w1"].permit


def test_state_belongs_to_the_update_of_the_snapshot() -> None:
    plan = ShardPlan(buckets=HALVES, optimizer=sgd(0.5, 0.9), workers=WORKERS, accumulates=True)
    server, reference = (
        SyncShard(transfer(), plan),
        SyncShard(transfer(), msgspec.structs.replace(plan, accumulates=False)),
    )
    assert server.handle(b"w0", Request(Op.SNAPSHOT), b"") == []
    for updated in (server, reference):
        for worker in WORKERS:
            for bucket in (0, 1):
                push(updated, worker, 1.0 + WORKERS.index(worker), bucket=bucket)
    push(server, "w1", 100.0)  # A gradient of the next update, accumulated in the velocity at once.
    for bucket in (0, 1):
        request = Request(Op.STATE, bucket=bucket)
        (actual,), (expected,) = (source.handle(b"w0", request, b"") for source in (server, reference))
        np.testing.assert_allclose(actual.payload, expected.payload, rtol=1e-6)
    with pytest.raises(WireError, match="not the chief"):
        server.handle(b"w1", Request(Op.STATE), b"")


@given(st.permutations(WORKERS), st.booleans())
def test_update_with_a_backup_worker_drops_the_gradient_of_the_slowest(order: list[str], accumulates: bool) -> None:
    plan = ShardPlan(buckets=WHOLE, optimizer=sgd(1.0), workers=WORKERS, accumulates=accumulates, backup=1)
    server = SyncShard(transfer(), plan)
    first, second, last = order
    gradient = {worker: 1.0 + WORKERS.index(worker) for worker in WORKERS}
    assert push(server, first, gradient[first]) == {}
    replies = push(server, second, gradient[second])
    assert replies.keys() == {first, second}
    assert all(reply.applied and reply.update == 1 for reply in replies.values())
    np.testing.assert_allclose(server.values, -(gradient[first] + gradient[second]) / 2)
    before = server.values.copy()
    (reply,) = push(server, last, gradient[last], version=0).values()
    assert (reply.applied, reply.permit, reply.update) == (False, True, 1)
    assert np.array_equal(server.values, before)
    # The slowest worker can take part in the next update.
    assert push(server, last, 1.0, version=1) == {}
    assert push(server, first, 1.0, version=1).keys() == {last, first}
