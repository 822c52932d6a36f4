"""The shard of strategy ssp: who waits for whom, and that its limits are those of ps-sync and ps-async."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.paramserver.bounded_shard import BoundedShard
from paceline.paramserver.shard import AsyncShard, Shard, ShardPlan, ShardReply, SyncShard
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.wire import Op, Request
from support.optimizers import sgd

WORKERS = ["w0", "w1", "w2"]
HALVES = (slice(2, 4), slice(0, 2))
ORDER = st.lists(st.sampled_from(WORKERS), max_size=80)


def make_plan(limit: int | None = None, lr: float = 0.5, momentum: float = 0.0) -> ShardPlan:
    return ShardPlan(buckets=HALVES, optimizer=sgd(lr, momentum), workers=WORKERS, update_limit=limit)


def transfer() -> ServerTransfer:
    return ServerTransfer(np.zeros(4, np.float32), zero_copy=False)


class Workers:
    """Workers that make a step whenever `order` names them and they are not waiting for a reply."""

    def __init__(self, server: Shard, gradients: dict[str, float] | None = None) -> None:
        self.server, self.gradients = server, gradients or dict.fromkeys(WORKERS, 1.0)
        self.free: set[str] = set()
        self.version = dict.fromkeys(WORKERS, 0)
        self.steps = dict.fromkeys(WORKERS, 0)
        self.replies = dict.fromkeys(WORKERS, 0)
        self.staleness: list[int] = []
        self.done: set[str] = set()
        self.values: dict[str, list[list[float]]] = {worker: [] for worker in WORKERS}
        for worker in WORKERS:
            self._receive(self.send(worker, Op.START))

    def send(self, worker: str, op: Op) -> list[ShardReply]:
        return self.server.handle(worker.encode(), Request(op), b"")

    def step(self, worker: str) -> None:
        self.free.discard(worker)
        self.steps[worker] += 1
        sent: list[ShardReply] = []
        for bucket in range(len(HALVES)):
            gradient = np.full(2, self.gradients[worker], np.float32).tobytes()
            sent += self.server.handle(worker.encode(), Request(Op.PUSH, self.version[worker], bucket), gradient)
        self._receive(sent)

    def run(self, order: list[str]) -> None:
        for worker in order:
            if worker in self.free:
                self.step(worker)

    def _receive(self, sent: list[ShardReply]) -> None:
        for reply in sent:
            worker = reply.worker.decode()
            self.version[worker] = max(self.version[worker], reply.reply.update)
            if reply.part is not None:
                self.replies[worker] += 1
                self.values[worker].append(self.server.values[reply.part].tolist())
            if reply.reply.staleness >= 0 and self.replies[worker] % len(HALVES) == 0:
                self.staleness.append(reply.reply.staleness)
            complete = self.replies[worker] == len(HALVES) * self.steps[worker]
            if complete and reply.reply.permit:
                self.free.add(worker)
            elif complete and worker not in self.done:
                self.done.add(worker)
                self._receive(self.send(worker, Op.DONE))


@given(ORDER, st.integers(0, 4))
def test_no_worker_starts_a_step_while_it_is_further_ahead_than_the_bound(order: list[str], bound: int) -> None:
    workers = Workers(BoundedShard(transfer(), make_plan(), bound))
    for worker in order:
        if worker in workers.free:
            assert workers.steps[worker] - min(workers.steps.values()) <= bound
            workers.step(worker)
        else:
            # The worker must wait, because it is ahead of the slowest worker by more than the bound.
            assert workers.steps[worker] - min(workers.steps.values()) > bound
        assert workers.free, "all workers wait for each other"


@given(ORDER, st.integers(0, 4), st.integers(3, 20))
def test_exactly_the_requested_number_of_updates_is_applied(order: list[str], bound: int, limit: int) -> None:
    workers = Workers(BoundedShard(transfer(), make_plan(limit), bound))
    workers.run([*order, *WORKERS * limit])
    assert workers.server.updates == limit == sum(workers.steps.values())
    assert workers.server.done
    assert min(workers.steps.values()) >= 1


@given(ORDER, st.integers(0, 3))
def test_bound_0_gives_what_ps_sync_gives_with_the_sum_of_the_gradients(order: list[str], rounds: int) -> None:
    gradients = {"w0": 1.0, "w1": 2.0, "w2": 4.0}
    bounded = Workers(BoundedShard(transfer(), make_plan(), 0), gradients)
    bounded.run([*order, *WORKERS * rounds])
    lockstep = min(bounded.steps.values())
    # Complete the round that is under way, so that both have made the same steps.
    bounded.run(
        [worker for worker in WORKERS if bounded.steps[worker] == lockstep] if bounded.server.updates % 3 else []
    )
    sync = Workers(SyncShard(transfer(), make_plan(lr=0.5 * len(WORKERS))), gradients)
    sync.run(WORKERS * min(bounded.steps.values()))
    assert set(bounded.steps.values()) == set(sync.steps.values())
    assert bounded.server.values.tolist() == sync.server.values.tolist()
    assert bounded.values == sync.values  # Every worker got the same values for every step.


@given(ORDER, st.one_of(st.none(), st.integers(3, 20)), st.sampled_from([0.0, 0.5]))
def test_a_bound_that_is_never_reached_gives_what_ps_async_gives(
    order: list[str], limit: int | None, momentum: float
) -> None:
    made = []
    for server in (
        BoundedShard(transfer(), make_plan(limit, momentum=momentum), 1000),
        AsyncShard(transfer(), make_plan(limit, momentum=momentum)),
    ):
        workers = Workers(server)
        workers.run(order)
        made.append((server.updates, server.values.tolist(), workers.staleness, workers.steps, workers.free))
    assert made[0] == made[1]


def test_a_worker_that_waits_is_told_how_long_it_waited() -> None:
    server = BoundedShard(transfer(), make_plan(), 0)
    workers: dict[str, Any] = {}
    for worker in WORKERS:
        for bucket in range(2):
            sent = server.handle(worker.encode(), Request(Op.PUSH, 0, bucket), np.ones(2, np.float32).tobytes())
            workers |= {reply.worker.decode(): reply.reply for reply in sent}
    assert workers["w0"].waited_ns >= workers["w1"].waited_ns >= workers["w2"].waited_ns >= 0
    assert workers["w0"].waited_ns > workers["w2"].waited_ns
    assert [workers[worker].staleness for worker in WORKERS] == [0, 1, 2]


def test_the_end_of_the_run_releases_workers_that_wait() -> None:
    workers = Workers(BoundedShard(transfer(), make_plan(), 0))
    workers.step("w1")
    assert "w1" not in workers.free
    sent = workers.send("w0", Op.STOP)
    assert {(reply.worker, reply.reply.permit, reply.reply.applied) for reply in sent} == {
        (b"w1", False, True),
        (b"w0", False, True),
    }


def test_a_push_after_the_end_of_the_run_is_answered_at_once() -> None:
    workers = Workers(BoundedShard(transfer(), make_plan(), 0))
    workers.send("w0", Op.STOP)
    workers.step("w1")
    workers.step("w2")
    assert workers.done == {"w1", "w2"}


def test_the_others_wait_for_a_worker_that_is_restarted_and_then_continue() -> None:
    workers = Workers(BoundedShard(transfer(), make_plan(), 1))
    workers.run(["w0", "w0", "w1", "w1"])
    assert workers.free == {"w2"}
    (reply,) = workers.send("w2", Op.START)  # Restarted before its first push.
    assert reply.reply.permit
    workers.step("w2")
    assert workers.free == set(WORKERS)


def test_with_bound_0_no_worker_gets_its_first_values_before_all_have_asked_for_them() -> None:
    server = BoundedShard(transfer(), make_plan(), 0)

    def pull(worker: bytes) -> list[bytes]:
        replies = [server.handle(worker, Request(Op.PULL, bucket=bucket), b"") for bucket in (0, 1)]
        return [reply.worker for part in replies for reply in part]

    for worker in (b"w0", b"w1", b"w2"):
        server.handle(worker, Request(Op.START), b"")
    assert pull(b"w0") == []
    assert pull(b"w1") == []
    # A new process of w0 asks again: its first one gets no reply.
    server.handle(b"w0", Request(Op.START), b"")
    assert pull(b"w2") == []
    assert sorted(pull(b"w0")) == sorted([b"w0", b"w1", b"w2"] * 2)
    # From then on, each is answered at once.
    assert pull(b"w1") == [b"w1", b"w1"]


def test_with_bound_0_a_worker_that_makes_no_step_keeps_nobody_waiting() -> None:
    server = BoundedShard(transfer(), make_plan(), 0)
    for worker in (b"w0", b"w1", b"w2"):
        server.handle(worker, Request(Op.START), b"")
    for bucket in (0, 1):
        assert server.handle(b"w0", Request(Op.PULL, bucket=bucket), b"") == []
    assert server.handle(b"w1", Request(Op.DONE), b"") == []
    released = server.handle(b"w2", Request(Op.DONE), b"")
    assert [reply.worker for reply in released] == [b"w0", b"w0"]
