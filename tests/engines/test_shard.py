"""The parameter server's decisions, without a socket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines.torch.shard import AsyncShard, Shard, SyncShard
from paceline.engines.torch.wire import Op, Reply, Request, WireError

WORKERS = ["w0", "w1", "w2"]


def shard(kind: type[Shard], limit: int | None = None) -> Shard:
    return kind(np.zeros(4, np.float32), lr=0.5, workers=WORKERS, limit=limit, counts=True)


def push(server: Shard, worker: str, value: float, version: int = 0) -> dict[str, Reply]:
    gradient = np.full(4, value, np.float32).tobytes()
    answers = server.handle(worker.encode(), Request(Op.PUSH, version), gradient)
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
            may_step[worker] = ask(server, worker, Op.PULL)[worker].more
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
            shard(kind).handle(b"w0", *Request.unpack(head + payload))
        except WireError:
            pass


@given(st.sampled_from(list(Op)), st.binary(max_size=64))
def test_any_payload_is_handled_or_a_wire_error(op: Op, payload: bytes) -> None:
    for kind in (AsyncShard, SyncShard):
        server = shard(kind)
        try:
            server.handle(b"w0", Request(op), payload)
        except WireError:
            assert server.updates == 0


@given(st.integers(0, 2**63), st.booleans(), st.booleans(), st.integers(-1, 2**62), st.integers(0, 2**62))
def test_replies_arrive_as_they_were_sent(update: int, more: bool, applied: bool, stale: int, waited: int) -> None:
    reply = Reply(update, more, applied, stale, waited)
    told, values = Reply.unpack(reply.pack(b"values"))
    assert told == reply
    assert bytes(values) == b"values"
