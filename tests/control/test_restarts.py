"""What is started again after a death, and what is not: also a function of events."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.supervised import HOSTS, TASKS, done, end_of, training
from paceline.control import events as say
from paceline.control.supervisor import STARTUP_DEADLINE_S, Supervisor

REJOIN = say.RestartPolicy(rejoin=frozenset({"w0", "w1"}), restarts=2)
WHOLE = say.RestartPolicy(whole=True, restarts=2)


def test_a_worker_that_may_rejoin_is_started_again_at_once_and_the_others_are_left_alone() -> None:
    supervisor = training(REJOIN)
    assert supervisor.handle(say.TaskExited("w1", -9), 5.0) == [
        say.RecordIncident("w1 on h2 was killed by SIGKILL", "w1", "h2"),
        say.StartTasks(("w1",), 1, whole=False),
    ]
    (introduced,) = supervisor.handle(say.TaskBound("w1", {"at": "new"}), 6.0)
    assert introduced == say.SendPeers(("w1",), {"ps0": {"at": "ps0"}, "w0": {"at": "w0"}, "w1": {"at": "new"}})
    assert supervisor.handle(say.TaskReady("w1"), 7.0) == [say.OpenBarrier(("w1",), 1)]
    assert supervisor.handle(say.Tick(), 1e6) == []
    for task in ("w0", "w1"):
        supervisor.handle(done(task), 8.0)
        supervisor.handle(say.TaskExited(task, 0), 8.0)
    supervisor.handle(done("ps0"), 8.1)
    assert supervisor.handle(say.TaskExited("ps0", 0), 8.2) == [say.End("ok")]


def test_a_workers_own_error_brings_it_back_as_well_and_is_told() -> None:
    supervisor = training(REJOIN)
    assert supervisor.handle(say.TaskFailed("w0", "it broke"), 5.0) == []
    report, start = supervisor.handle(say.TaskExited("w0", 1), 5.1)
    assert report == say.RecordIncident("w0 on h1 failed: it broke", "w0", "h1")
    assert start == say.StartTasks(("w0",), 1, whole=False)


def test_after_so_many_restarts_the_next_death_ends_the_run() -> None:
    supervisor = training(REJOIN)
    for attempt in (1, 2):
        assert say.StartTasks(("w1",), attempt, whole=False) in supervisor.handle(say.TaskExited("w1", -9), 5.0)
        supervisor.handle(say.TaskBound("w1", {}), 5.0)
        supervisor.handle(say.TaskReady("w1"), 5.0)
    assert say.KillTasks(("ps0", "w0")) in supervisor.handle(say.TaskExited("w1", -9), 6.0)


@pytest.mark.parametrize("event", [say.TaskExited("w1", -9), say.TaskFailed("w1", "no")])
def test_one_that_dies_on_its_way_back_is_not_brought_back_for_ever(event: say.Event) -> None:
    supervisor = training(REJOIN)
    supervisor.handle(say.TaskExited("w1", -9), 5.0)
    supervisor.handle(event, 6.0)
    supervisor.handle(say.TaskExited("w1", 1), 6.0)
    supervisor.handle(event, 6.5)
    supervisor.handle(say.TaskExited("w1", 1), 6.5)
    assert say.KillTasks in {type(one) for one in supervisor.handle(say.Tick(), 8.0)}


def test_one_that_never_comes_back_ends_the_run() -> None:
    supervisor = training(REJOIN)
    supervisor.handle(say.TaskExited("w1", -9), 5.0)
    late = 5.0 + STARTUP_DEADLINE_S
    assert supervisor.handle(say.Tick(), late) == []
    report, *_ = supervisor.handle(say.Tick(), late + 1)
    assert isinstance(report, say.RecordIncident)
    assert "w1 on h2 to come back" in report.what


@pytest.mark.parametrize("order", list(permutations(["ps0", "w0", "w1"])))
def test_all_are_killed_and_started_again_whoever_dies_first(order: tuple[str, ...]) -> None:
    supervisor = training(WHOLE)
    first, *others = order
    report, kill = supervisor.handle(say.TaskExited(first, -9), 5.0)
    assert report == say.RecordIncident(f"{first} on {TASKS[first]} was killed by SIGKILL", first, TASKS[first])
    assert kill == say.KillTasks(tuple(sorted(others)))
    assert supervisor.handle(say.TaskFailed(others[0], "the connection is gone"), 6.1) == []
    assert supervisor.handle(say.TaskExited(others[0], -9), 6.2) == []
    assert supervisor.handle(say.TaskExited(others[1], 1), 6.3) == [say.StartTasks(tuple(TASKS), 1)]
    for task in TASKS:
        supervisor.handle(say.TaskBound(task, {}), 8.0)
    opened = [supervisor.handle(say.TaskReady(task), 9.0) for task in TASKS]
    assert opened == [[], [], [say.OpenBarrier(tuple(TASKS), 1)]]


REGROUP = say.RestartPolicy(whole=True, regroup=frozenset({"w0", "w1"}), restarts=2)


def test_when_a_server_dies_its_workers_let_go_and_are_told_of_a_new_one() -> None:
    supervisor = training(REGROUP)
    assert supervisor.handle(say.TaskDisconnected("w1", "lost the connection to ps0"), 4.9) == []
    report, recall = supervisor.handle(say.TaskExited("ps0", -9), 5.0)
    assert report == say.RecordIncident("ps0 on h1 was killed by SIGKILL", "ps0", "h1")
    assert recall == say.DisconnectTasks(("w0",))
    assert supervisor.handle(say.TaskDisconnected("w0", "recalled"), 6.1) == [
        say.StartTasks(tuple(TASKS), 1, stranded=("w0", "w1"))
    ]
    for task in TASKS:
        supervisor.handle(say.TaskBound(task, {}), 8.0)
    opened = [supervisor.handle(say.TaskReady(task), 9.0) for task in TASKS]
    assert opened == [[], [], [say.OpenBarrier(tuple(TASKS), 1)]]


def test_a_worker_without_its_server_is_not_to_blame_but_starts_it_all_if_nobody_else_is() -> None:
    supervisor = training(REGROUP)
    assert supervisor.handle(say.TaskDisconnected("w1", "lost the connection to ps0"), 5.0) == []
    report, *more = supervisor.handle(say.Tick(), 6.0)
    assert report == say.RecordIncident("w1 on h2 failed: lost the connection to ps0", "w1", "h2")
    assert more == [say.DisconnectTasks(("w0",)), say.KillTasks(("ps0",))]


def test_a_worker_that_does_not_let_go_in_time_is_killed_and_started() -> None:
    supervisor = training(REGROUP)
    supervisor.handle(say.TaskExited("ps0", -9), 5.0)
    supervisor.handle(say.Tick(), 6.0)
    supervisor.handle(say.TaskDisconnected("w0", "recalled"), 6.1)
    assert supervisor.handle(say.Tick(), 10.0) == [say.KillTasks(("w1",))]
    assert supervisor.handle(say.TaskExited("w1", -9), 10.1) == [say.StartTasks(tuple(TASKS), 1, stranded=("w0",))]


def test_a_worker_that_is_done_before_it_hears_of_it_starts_again_as_well() -> None:
    supervisor = training(REGROUP)
    supervisor.handle(done("w0"), 5.0)
    assert supervisor.handle(say.TaskExited("ps0", -9), 5.1)[1:] == [
        say.DisconnectTasks(("w1",)),
        say.KillTasks(("w0",)),
    ]
    assert supervisor.handle(done("w1"), 6.1) == [say.KillTasks(("w1",))]
    supervisor.handle(say.TaskExited("w0", -9), 6.2)
    assert supervisor.handle(say.TaskExited("w1", 0), 6.2) == [say.StartTasks(tuple(TASKS), 1)]


def test_what_the_user_ends_is_not_started_again() -> None:
    supervisor = training(REGROUP)
    for event in (say.TaskExited("ps0", -9), say.TaskDisconnected("w0", "lost"), say.TaskDisconnected("w1", "lost")):
        supervisor.handle(event, 5.0)
    supervisor.handle(say.Tick(), 6.0)
    for task in TASKS:
        supervisor.handle(say.TaskBound(task, {}), 7.0)
        supervisor.handle(say.TaskReady(task), 7.0)
    supervisor.handle(say.Interrupted(), 8.0)
    assert say.KillTasks(("w0", "w1")) in supervisor.handle(say.TaskExited("ps0", -9), 8.1)


def test_what_a_restart_cannot_help_is_not_restarted() -> None:
    for trouble in (say.AgentLost("h2", "gone"), say.StoreLost("disk full")):
        supervisor = training(WHOLE)
        supervisor.handle(trouble, 5.0)
        told = supervisor.handle(say.Tick(), 6.0)
        for task in TASKS:
            told += supervisor.handle(say.TaskExited(task, -9), 6.1)
        assert end_of(told) is not None
        assert not any(isinstance(one, say.StartTasks) for one in told)
    supervisor = Supervisor(HOSTS, TASKS, 0.0, policy=WHOLE)  # Not even begun.
    for host in HOSTS:
        supervisor.handle(say.AgentJoined(host), 1.0)
    supervisor.handle(say.TaskExited("w0", 1), 2.0)
    assert say.KillTasks(("ps0", "w1")) in supervisor.handle(say.Tick(), 3.0)
    supervisor.handle(say.TaskExited("ps0", -9), 3.1)
    assert end_of(supervisor.handle(say.TaskExited("w1", -9), 3.1)) is not None


_EVENTS = st.one_of(
    st.builds(say.TaskExited, st.sampled_from(sorted(TASKS)), st.sampled_from([0, 1, -9])),
    st.builds(say.TaskFailed, st.sampled_from(sorted(TASKS)), st.just("no")),
    st.builds(say.TaskBound, st.sampled_from(sorted(TASKS)), st.just({})),
    st.builds(say.TaskReady, st.sampled_from(sorted(TASKS))),
    st.builds(done, st.sampled_from(sorted(TASKS))),
    st.builds(say.TaskDisconnected, st.sampled_from(["w0", "w1"]), st.just("lost")),
    st.just(say.Interrupted()),
    st.builds(say.AgentLost, st.sampled_from(HOSTS), st.just("gone")),
    st.just(say.Tick()),
)


@settings(max_examples=400)
@given(st.lists(_EVENTS, max_size=30), st.sampled_from([REJOIN, WHOLE, REGROUP, say.RestartPolicy(), say.RestartPolicy(
    rejoin=frozenset({"w1"}), whole=True, restarts=2), say.RestartPolicy(
    rejoin=frozenset({"w1"}), whole=True, regroup=frozenset({"w0", "w1"}), restarts=2)]))  # fmt: skip
def test_whatever_happens_it_ends_once_and_starts_only_what_is_dead(
    events: list[say.Event], policy: say.RestartPolicy
) -> None:
    supervisor = training(policy)
    alive, stranded, now_s, starts, ends = set(TASKS), set[str](), 5.0, 0, 0
    script = [*events]
    while not supervisor.ended and now_s < 10_000:
        now_s += 0.5
        event: say.Event = script.pop(0) if script else say.Tick()
        if isinstance(event, say.TaskExited):
            if event.task not in alive:
                continue
            alive.discard(event.task)
            stranded.discard(event.task)
        if isinstance(event, say.TaskDisconnected):
            if event.task not in alive - stranded or event.task not in policy.regroup:
                continue
            stranded.add(event.task)
        for one in supervisor.handle(event, now_s):
            match one:
                case say.StartTasks(tasks, attempt, _, waiting):
                    assert alive & set(tasks) == set(waiting) <= stranded
                    alive |= set(tasks)
                    stranded -= set(waiting)
                    starts += 1
                    assert attempt == starts <= policy.restarts
                case say.KillTasks(tasks):
                    assert set(tasks) <= alive
                    script = [*(say.TaskExited(task, -9) for task in tasks), *script]
                case say.DisconnectTasks(tasks):
                    assert set(tasks) <= (alive & policy.regroup) - stranded
                case say.End():
                    ends += 1
        if not script and isinstance(event, say.Tick) and now_s > 5000:
            script = [say.Interrupted(), say.Interrupted()]
    assert ends == 1
