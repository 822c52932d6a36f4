"""The parameter server's decisions, without a socket."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, SyncShard
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Op, Reply, Request, WireError

WORKERS = ["w0", "w1", "w2"]


WHOLE = (slice(0, 4),)
HALVES = (slice(2, 4), slice(0, 2))


def shard(
    kind: type[Shard],
    limit: int | None = None,
    buckets: tuple[slice, ...] = WHOLE,
    momentum: float = 0.0,
    by_rows: bool = False,
) -> Shard:
    plan = ShardPlan(buckets=buckets, lr=0.5, momentum=momentum, workers=WORKERS, limit=limit, by_rows=by_rows)
    return kind(side(), plan)


def side() -> ServerTransfer:
    return ServerTransfer(np.zeros(4, np.float32), steady=True)


def push(server: Shard, worker: str, value: float, version: int | None = None, bucket: int = 0) -> dict[str, Reply]:
    """In a synchronous run, of the values as they are now, unless said otherwise."""
    if version is None:
        version = server.updates if isinstance(server, SyncShard) else 0
    part = server._buckets[bucket]
    gradient = np.full(part.stop - part.start, value, np.float32).tobytes()
    answers = server.handle(worker.encode(), Request(Op.PUSH, version, bucket), gradient)
    return {answer.worker.decode(): answer.reply for answer in answers}


def ask(server: Shard, worker: str, op: Op) -> dict[str, Reply]:
    return {a.worker.decode(): a.reply for a in server.handle(worker.encode(), Request(op), b"")}


def test_async_applies_every_push_and_tells_how_stale_it_was() -> None:
    server = shard(AsyncShard)
    assert push(server, "w0", 1.0)["w0"] == Reply(1, more=True, staleness=0)
    assert push(server, "w1", 1.0)["w1"] == Reply(2, more=True, staleness=1)
    assert push(server, "w1", 1.0, version=2)["w1"].staleness == 0
    assert server.values.tolist() == [-1.5] * 4


def test_sync_waits_for_all_and_applies_the_mean() -> None:
    server = shard(SyncShard)
    assert push(server, "w2", 3.0) == {}
    assert push(server, "w0", 1.0) == {}
    replies = push(server, "w1", 2.0)
    assert replies.keys() == set(WORKERS)
    assert all(reply.update == 1 and reply.more for reply in replies.values())
    assert replies["w2"].waited_ns >= replies["w0"].waited_ns >= replies["w1"].waited_ns
    assert server.values.tolist() == [-1.0] * 4


def test_sync_does_not_depend_on_who_comes_first() -> None:
    first, second = shard(SyncShard), shard(SyncShard)
    values = {"w0": 0.1, "w1": 1e8, "w2": -1e8}
    for server, order in ((first, ["w0", "w1", "w2"]), (second, ["w2", "w0", "w1"])):
        for worker in order:
            push(server, worker, values[worker])
    assert first.values.tobytes() == second.values.tobytes()


def test_the_chiefs_stop_drops_what_is_not_a_whole_update() -> None:
    server = shard(SyncShard)
    push(server, "w1", 1.0)
    replies = ask(server, "w0", Op.STOP)
    assert not replies["w1"].more
    assert not replies["w1"].applied
    late = push(server, "w2", 1.0)["w2"]
    assert not late.more
    assert not late.applied
    assert server.updates == 0
    assert server.values.tolist() == [0.0] * 4


def test_the_final_parameters_wait_for_the_last_worker_to_leave() -> None:
    server = shard(AsyncShard)
    assert ask(server, "w0", Op.FINAL) == {}
    assert ask(server, "w1", Op.LEAVE) == {}
    assert ask(server, "w2", Op.LEAVE).keys() == {"w0"}
    assert not server.done
    ask(server, "w0", Op.LEAVE)
    assert server.done


@given(st.lists(st.sampled_from(WORKERS), max_size=60), st.integers(3, 20))
def test_exactly_the_asked_number_of_updates_is_applied(order: list[str], limit: int) -> None:
    """Whoever is fast: never more than the limit, and every worker gets a first step."""
    server = shard(AsyncShard, limit)
    may_step: dict[str, bool] = {}
    stepped = set()
    for worker in [*order, *WORKERS * limit]:
        if worker not in may_step:
            may_step[worker] = ask(server, worker, Op.START)[worker].more
        elif may_step[worker]:
            stepped.add(worker)
            may_step[worker] = push(server, worker, 1.0)[worker].more
    assert server.updates == limit
    assert stepped == set(WORKERS)


def test_what_is_not_for_this_shard_is_refused() -> None:
    server = shard(AsyncShard)
    with pytest.raises(WireError, match="unknown worker"):
        server.handle(b"intruder", Request(Op.PULL), b"")
    with pytest.raises(WireError, match="12 bytes"):
        server.handle(b"w0", Request(Op.PUSH), np.zeros(3, np.float32).tobytes())
    twice = shard(SyncShard)
    push(twice, "w0", 1.0)
    with pytest.raises(WireError, match="twice"):
        push(twice, "w0", 1.0)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_any_bytes_are_handled_or_a_wire_error(head: bytes, payload: bytes) -> None:
    for kind in (AsyncShard, SyncShard):
        try:
            for frames in ([head, payload], [head + payload]):
                for answer in shard(kind).handle(b"w0", *Request.unpack(frames)):
                    answer.reply.head()
        except WireError:
            pass


@given(st.sampled_from(list(Op)), st.binary(max_size=64))
def test_any_payload_is_handled_or_a_wire_error(op: Op, payload: bytes) -> None:
    for kind in (AsyncShard, SyncShard):
        server = shard(kind)
        try:
            for answer in server.handle(b"w0", Request(op), payload):
                answer.reply.head()
        except WireError:
            assert server.updates == 0


@given(st.integers(0, 2**63), st.booleans(), st.booleans(), st.integers(-1, 2**62), st.integers(0, 2**62))
def test_replies_arrive_as_they_were_sent(update: int, more: bool, applied: bool, stale: int, waited: int) -> None:
    reply = Reply(update, more, applied, stale, waited)
    for frames in ([reply.head() + b"values"], [reply.head(), b"values"]):
        told, values = Reply.unpack(frames)
        assert told == reply
        assert bytes(values) == b"values"


def test_momentum_is_kept_by_the_server() -> None:
    server = shard(AsyncShard, momentum=0.5)
    push(server, "w0", 1.0)  # velocity 1, values -0.5
    push(server, "w0", 1.0)  # velocity 1.5, values -1.25
    assert server.values.tolist() == [-1.25] * 4


def test_an_async_update_counts_with_its_last_bucket_whichever_that_is() -> None:
    server = shard(AsyncShard, buckets=HALVES)
    assert push(server, "w0", 1.0, bucket=1)["w0"] == Reply(0, more=True, bucket=1)
    assert push(server, "w1", 1.0, bucket=0)["w1"].update == 0
    assert push(server, "w0", 1.0, bucket=0)["w0"] == Reply(1, more=True, staleness=0, bucket=0)
    assert push(server, "w1", 1.0, bucket=1)["w1"] == Reply(2, more=True, staleness=1, bucket=1)
    assert server.values.tolist() == [-1.0] * 4


@pytest.mark.parametrize("folds", [False, True])
def test_a_sync_update_is_whole_when_all_of_its_buckets_are(folds: bool) -> None:
    plan = ShardPlan(buckets=HALVES, lr=1.0, workers=WORKERS, folds=folds)
    server = SyncShard(side(), plan)
    for worker, value in (("w0", 1.0), ("w1", 2.0), ("w2", 3.0)):
        assert push(server, worker, value, bucket=1) == {} or worker == "w2"
    assert server.values.tolist() == [-2.0, -2.0, 0.0, 0.0]
    assert server.updates == 0
    for worker, value in (("w2", 3.0), ("w1", 2.0)):
        push(server, worker, value, bucket=0)
    replies = push(server, "w0", 1.0, bucket=0)
    assert {reply.update for reply in replies.values()} == {1}
    assert server.values.tolist() == [-2.0] * 4


@pytest.mark.parametrize("folds", [False, True])
def test_a_stop_between_buckets_leaves_the_values_as_they_were(folds: bool) -> None:
    plan = ShardPlan(buckets=HALVES, lr=1.0, workers=WORKERS, folds=folds)
    server = SyncShard(side(), plan)
    push(server, "w1", 1.0, bucket=0)
    push(server, "w1", 1.0, bucket=1)
    answers = server.handle(b"w0", Request(Op.STOP), b"")
    assert [answer.reply.applied for answer in answers if answer.worker == b"w1"] == [False, False]
    assert not server.values.any()


def indices(*numbers: int) -> bytes:
    return np.array(numbers, np.int32).tobytes()


def gradients(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def pull_rows(server: Shard, worker: bytes, *numbers: int) -> list[float]:
    (answer,) = server.handle(worker, Request(Op.PULL_ROWS, bucket=len(numbers)), indices(*numbers))
    return list(np.frombuffer(answer.payload, np.float32))


def test_a_push_is_for_the_rows_pulled_last_and_brings_the_next_ones() -> None:
    server = shard(AsyncShard, by_rows=True)
    assert pull_rows(server, b"w0", 1, 3, 1) == [0.0, 0.0, 0.0]
    (answer,) = server.handle(b"w0", Request(Op.PUSH_ROWS, 0, bucket=2), gradients(1.0, 2.0, 3.0) + indices(3, 0))
    assert server.values.tolist() == [0.0, -2.0, 0.0, -1.0]
    assert answer.reply == Reply(1, more=True, staleness=0, bucket=2)
    assert np.frombuffer(answer.payload, np.float32).tolist() == [-1.0, 0.0]
    server.handle(b"w0", Request(Op.PUSH_ROWS, 1, bucket=0), gradients(2.0, 2.0))
    assert server.values.tolist() == [-1.0, -2.0, 0.0, -2.0]


def test_rows_of_a_sync_update_are_averaged() -> None:
    server = shard(SyncShard, by_rows=True)
    for worker, number in ((b"w0", 0), (b"w1", 1), (b"w2", 0)):
        pull_rows(server, worker, number)
    push = Request(Op.PUSH_ROWS, 0, bucket=1)
    assert server.handle(b"w0", push, gradients(3.0) + indices(1)) == []
    assert server.handle(b"w1", push, gradients(3.0) + indices(0)) == []
    answers = server.handle(b"w2", push, gradients(6.0) + indices(2))
    assert server.values.tolist() == [-1.5, -0.5, 0.0, 0.0]
    told = {answer.worker: np.frombuffer(answer.payload, np.float32).tolist() for answer in answers}
    assert told == {b"w0": [-0.5], b"w1": [-1.5], b"w2": [0.0]}
    assert {answer.reply.update for answer in answers} == {1}


def test_rows_beyond_the_shard_or_never_pulled_are_refused() -> None:
    server = shard(AsyncShard, by_rows=True)
    with pytest.raises(WireError, match="not pulled"):
        server.handle(b"w0", Request(Op.PUSH_ROWS), gradients(1.0))
    for numbers in ((4,), (-1,)):
        with pytest.raises(WireError, match="beyond"):
            pull_rows(server, b"w0", *numbers)
    pull_rows(server, b"w0", 1)
    for count, payload in ((0, gradients(1.0, 2.0)), (1, gradients(1.0)), (0, b"abc")):
        with pytest.raises(WireError, match="bytes for"):
            server.handle(b"w0", Request(Op.PUSH_ROWS, 0, bucket=count), payload)
    assert not server.values.any()


@given(st.permutations(WORKERS), st.sampled_from([0.0, 0.9]))
def test_folding_gives_what_holding_gives(order: list[str], momentum: float) -> None:
    values = []
    for folds in (False, True):
        plan = ShardPlan(buckets=HALVES, lr=0.5, momentum=momentum, workers=WORKERS, folds=folds)
        server = SyncShard(side(), plan)
        for update in (1.0, 2.0, 3.0):
            for bucket in (1, 0):
                for worker in order:
                    push(server, worker, update * (1 + WORKERS.index(worker)), version=server.updates, bucket=bucket)
        assert server.updates == 3
        values.append(server.values.tolist())
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_only_the_chief_ends_a_run_and_nobody_pushes_from_the_future() -> None:
    server = shard(AsyncShard)
    for op in (Op.STOP, Op.FINAL):
        with pytest.raises(WireError, match="not the chief"):
            server.handle(b"w1", Request(op), b"")
    with pytest.raises(WireError, match="yet to come"):
        push(server, "w0", 1.0, version=2**64 - 1)
    assert not server.values.any()


@given(
    st.permutations([(worker, bucket) for worker in WORKERS for bucket in (0, 1)]),
    st.integers(0, 5),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from([0.0, 0.9]),
)
def test_a_worker_that_goes_and_comes_back_changes_nothing(
    order: list[tuple[str, int]], gone_after: int, update: int, folds: bool, momentum: float
) -> None:
    """w1 is killed after some of an update's pushes, and makes its step again when it is back."""

    def gradient(worker: str, number: int) -> float:
        return number + 0.25 * (1 + WORKERS.index(worker))

    plan = ShardPlan(buckets=HALVES, lr=0.5, momentum=momentum, workers=WORKERS, folds=folds)
    undisturbed, server = SyncShard(side(), plan), SyncShard(side(), plan)
    for number in range(3):
        for worker, bucket in order:
            push(undisturbed, worker, gradient(worker, number), bucket=bucket)
        answered: list[tuple[str, int]] = []
        pushed: list[tuple[str, int]] = []
        for worker, bucket in order:
            if number == update and len(pushed) == gone_after:
                reply = ask(server, "w1", Op.START)["w1"]
                assert (reply.update, reply.more) == (server.updates, True)
                answered = [(name, one) for name, one in answered if name != "w1"]
                for again in [one for name, one in pushed if name == "w1"]:
                    replies = push(server, "w1", gradient("w1", number), version=number, bucket=again)
                    answered += [(name, again) for name in replies]
            replies = push(server, worker, gradient(worker, number), version=number, bucket=bucket)
            answered += [(name, bucket) for name in replies]
            pushed.append((worker, bucket))
        # Everyone hears once of each bucket, the one that came back as well.
        assert sorted(answered) == sorted((worker, bucket) for worker in WORKERS for bucket in (0, 1))
        assert server.updates == undisturbed.updates == number + 1
    np.testing.assert_allclose(server.values, undisturbed.values, rtol=1e-6)


def test_a_worker_that_comes_back_has_the_leave_it_had() -> None:
    server = shard(AsyncShard, limit=4)
    assert all(ask(server, worker, Op.START)[worker].more for worker in WORKERS)
    assert ask(server, "w1", Op.START)["w1"].more  # Back again: no further leave is taken for it.
    made = 0
    while push(server, "w0", 1.0)["w0"].more:
        made += 1
    for worker in ("w1", "w2"):
        assert not push(server, worker, 1.0)[worker].more
    assert server.updates == 4
    assert not ask(server, "w1", Op.START)["w1"].more


def test_the_state_is_that_of_the_update_it_was_asked_for() -> None:
    plan = ShardPlan(buckets=HALVES, lr=0.5, momentum=0.9, workers=WORKERS, folds=True)
    server, reference = SyncShard(side(), plan), SyncShard(side(), msgspec.structs.replace(plan, folds=False))
    assert server.handle(b"w0", Request(Op.KEEP), b"") == []
    for one in (server, reference):
        for worker in WORKERS:
            for bucket in (0, 1):
                push(one, worker, 1.0 + WORKERS.index(worker), bucket=bucket)
    push(server, "w1", 100.0)  # Of the next update, and folded into the velocity at once.
    for bucket in (0, 1):
        asked = Request(Op.STATE, bucket=bucket)
        (found,), (expected,) = (one.handle(b"w0", asked, b"") for one in (server, reference))
        np.testing.assert_allclose(found.payload, expected.payload, rtol=1e-6)
    with pytest.raises(WireError, match="not the chief"):
        server.handle(b"w1", Request(Op.STATE), b"")


@given(st.permutations(WORKERS), st.booleans())
def test_with_a_backup_the_slowest_is_not_waited_for_and_its_gradient_is_dropped(order: list[str], folds: bool) -> None:
    plan = ShardPlan(buckets=WHOLE, lr=1.0, workers=WORKERS, folds=folds, backup=1)
    server = SyncShard(side(), plan)
    first, second, last = order
    gradient = {worker: 1.0 + WORKERS.index(worker) for worker in WORKERS}
    assert push(server, first, gradient[first]) == {}
    answers = push(server, second, gradient[second])
    assert answers.keys() == {first, second}
    assert all(reply.applied and reply.update == 1 for reply in answers.values())
    np.testing.assert_allclose(server.values, -(gradient[first] + gradient[second]) / 2)
    before = server.values.copy()
    (reply,) = push(server, last, gradient[last], version=0).values()
    assert (reply.applied, reply.more, reply.update) == (False, True, 1)
    assert np.array_equal(server.values, before)
    # From there on it is one of those who may be in time.
    assert push(server, last, 1.0, version=1) == {}
    assert push(server, first, 1.0, version=1).keys() == {last, first}
