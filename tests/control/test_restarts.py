"""What is started again after a death, and what is not: also a function of events."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.supervised import HOSTS, PLACES, TASKS, done, end_of, training
from paceline.control import events as events
from paceline.control.startup_deadline import STARTUP_DEADLINE_S
from paceline.control.supervisor import Supervisor

REJOIN = events.RestartPolicy(rejoin=frozenset({"w0", "w1"}), max_restarts=2)
RESTART_ALL = events.RestartPolicy(all_tasks=True, max_restarts=2)


def test_a_worker_that_may_rejoin_is_started_again_at_once_and_the_others_are_left_alone() -> None:
    supervisor = training(REJOIN)
    assert supervisor.handle(events.TaskExited("w1", -9), 5.0) == [
        events.RecordIncident("w1 on h2 was killed by SIGKILL", "w1", "h2"),
        events.StartTasks(("w1",), 1, all_tasks=False),
    ]
    (introduced,) = supervisor.handle(events.TaskBound("w1", {"at": "new"}), 6.0)
    assert introduced == events.SendPeers(("w1",), {"ps0": {"at": "ps0"}, "w0": {"at": "w0"}, "w1": {"at": "new"}})
    assert supervisor.handle(events.TaskReady("w1"), 7.0) == [events.OpenBarrier(("w1",), 1)]
    assert supervisor.handle(events.Tick(), 1e6) == []
    for task in ("w0", "w1"):
        supervisor.handle(done(task), 8.0)
        supervisor.handle(events.TaskExited(task, 0), 8.0)
    supervisor.handle(done("ps0"), 8.1)
    assert supervisor.handle(events.TaskExited("ps0", 0), 8.2) == [events.End("ok")]


def test_an_error_that_may_pass_brings_the_worker_back_as_well_and_is_told() -> None:
    supervisor = training(REJOIN)
    assert supervisor.handle(events.TaskFailed("w0", "it broke"), 5.0) == []
    report, start = supervisor.handle(events.TaskExited("w0", 1), 5.1)
    assert report == events.RecordIncident("w0 on h1 failed: it broke", "w0", "h1")
    assert start == events.StartTasks(("w0",), 1, all_tasks=False)


def test_after_so_many_restarts_the_next_death_ends_the_run() -> None:
    supervisor = training(REJOIN)
    for attempt in (1, 2):
        instructions = supervisor.handle(events.TaskExited("w1", -9), 5.0)
        assert events.StartTasks(("w1",), attempt, all_tasks=False) in instructions
        supervisor.handle(events.TaskBound("w1", {}), 5.0)
        supervisor.handle(events.TaskReady("w1"), 5.0)
    assert events.KillTasks(("ps0", "w0")) in supervisor.handle(events.TaskExited("w1", -9), 6.0)


@pytest.mark.parametrize("event", [events.TaskExited("w1", -9), events.TaskFailed("w1", "no")])
def test_one_that_dies_on_its_way_back_is_not_brought_back_for_ever(event: events.Event) -> None:
    supervisor = training(REJOIN)
    supervisor.handle(events.TaskExited("w1", -9), 5.0)
    supervisor.handle(event, 6.0)
    supervisor.handle(events.TaskExited("w1", 1), 6.0)
    supervisor.handle(event, 6.5)
    supervisor.handle(events.TaskExited("w1", 1), 6.5)
    assert events.KillTasks in {type(one) for one in supervisor.handle(events.Tick(), 8.0)}


def test_one_that_never_comes_back_ends_the_run() -> None:
    supervisor = training(REJOIN)
    supervisor.handle(events.TaskExited("w1", -9), 5.0)
    late = 5.0 + STARTUP_DEADLINE_S
    assert supervisor.handle(events.Tick(), late) == []
    report, *_ = supervisor.handle(events.Tick(), late + 1)
    assert isinstance(report, events.RecordIncident)
    assert "w1 on h2 to rejoin" in report.what


@pytest.mark.parametrize("order", list(permutations(["ps0", "w0", "w1"])))
def test_all_are_killed_and_started_again_whoever_dies_first(order: tuple[str, ...]) -> None:
    supervisor = training(RESTART_ALL)
    first, *others = order
    report, kill = supervisor.handle(events.TaskExited(first, -9), 5.0)
    assert report == events.RecordIncident(f"{first} on {TASKS[first]} was killed by SIGKILL", first, TASKS[first])
    assert kill == events.KillTasks(tuple(sorted(others)))
    assert supervisor.handle(events.TaskFailed(others[0], "the connection is gone"), 6.1) == []
    assert supervisor.handle(events.TaskExited(others[0], -9), 6.2) == []
    assert supervisor.handle(events.TaskExited(others[1], 1), 6.3) == [events.StartTasks(tuple(TASKS), 1)]
    for task in TASKS:
        supervisor.handle(events.TaskBound(task, {}), 8.0)
    opened = [supervisor.handle(events.TaskReady(task), 9.0) for task in TASKS]
    assert opened == [[], [], [events.OpenBarrier(tuple(TASKS), 1)]]


REASSIGN = events.RestartPolicy(all_tasks=True, reassignable=frozenset({"w0", "w1"}), max_restarts=2)


def test_when_a_server_dies_its_workers_let_go_and_are_told_of_a_new_one() -> None:
    supervisor = training(REASSIGN)
    assert supervisor.handle(events.TaskDisconnected("w1", "lost the connection to ps0"), 4.9) == []
    report, recall = supervisor.handle(events.TaskExited("ps0", -9), 5.0)
    assert report == events.RecordIncident("ps0 on h1 was killed by SIGKILL", "ps0", "h1")
    assert recall == events.DisconnectTasks(("w0",))
    assert supervisor.handle(events.TaskDisconnected("w0", "recalled"), 6.1) == [
        events.StartTasks(tuple(TASKS), 1, disconnected=("w0", "w1"))
    ]
    for task in TASKS:
        supervisor.handle(events.TaskBound(task, {}), 8.0)
    opened = [supervisor.handle(events.TaskReady(task), 9.0) for task in TASKS]
    assert opened == [[], [], [events.OpenBarrier(tuple(TASKS), 1)]]


def test_a_worker_without_its_server_is_not_to_blame_but_starts_it_all_if_nobody_else_is() -> None:
    supervisor = training(REASSIGN)
    assert supervisor.handle(events.TaskDisconnected("w1", "lost the connection to ps0"), 5.0) == []
    report, *more = supervisor.handle(events.Tick(), 6.0)
    assert report == events.RecordIncident("w1 on h2 failed: lost the connection to ps0", "w1", "h2")
    assert more == [events.DisconnectTasks(("w0",)), events.KillTasks(("ps0",))]


def test_a_worker_that_does_not_let_go_in_time_is_killed_and_started() -> None:
    supervisor = training(REASSIGN)
    supervisor.handle(events.TaskExited("ps0", -9), 5.0)
    supervisor.handle(events.Tick(), 6.0)
    supervisor.handle(events.TaskDisconnected("w0", "recalled"), 6.1)
    assert supervisor.handle(events.Tick(), 10.0) == [events.KillTasks(("w1",))]
    restart = events.StartTasks(tuple(TASKS), 1, disconnected=("w0",))
    assert supervisor.handle(events.TaskExited("w1", -9), 10.1) == [restart]


def test_a_worker_that_is_done_before_it_hears_of_it_starts_again_as_well() -> None:
    supervisor = training(REASSIGN)
    supervisor.handle(done("w0"), 5.0)
    assert supervisor.handle(events.TaskExited("ps0", -9), 5.1)[1:] == [
        events.DisconnectTasks(("w1",)),
        events.KillTasks(("w0",)),
    ]
    assert supervisor.handle(done("w1"), 6.1) == [events.KillTasks(("w1",))]
    supervisor.handle(events.TaskExited("w0", -9), 6.2)
    assert supervisor.handle(events.TaskExited("w1", 0), 6.2) == [events.StartTasks(tuple(TASKS), 1)]


def test_what_the_user_ends_is_not_started_again() -> None:
    supervisor = training(REASSIGN)
    lost: list[events.Event] = [events.TaskDisconnected(task, "lost") for task in ("w0", "w1")]
    for event in [events.TaskExited("ps0", -9), *lost]:
        supervisor.handle(event, 5.0)
    supervisor.handle(events.Tick(), 6.0)
    for task in TASKS:
        supervisor.handle(events.TaskBound(task, {}), 7.0)
        supervisor.handle(events.TaskReady(task), 7.0)
    supervisor.handle(events.Interrupted(), 8.0)
    assert events.KillTasks(("w0", "w1")) in supervisor.handle(events.TaskExited("ps0", -9), 8.1)


def test_what_a_restart_cannot_help_is_not_restarted() -> None:
    for trouble in (events.AgentLost("h2", "gone"), events.StoreLost("disk full")):
        supervisor = training(RESTART_ALL)
        supervisor.handle(trouble, 5.0)
        told = supervisor.handle(events.Tick(), 6.0)
        for task in TASKS:
            told += supervisor.handle(events.TaskExited(task, -9), 6.1)
        assert end_of(told) is not None
        assert not any(isinstance(one, events.StartTasks) for one in told)
    supervisor = Supervisor(HOSTS, PLACES, 0.0, policy=RESTART_ALL)  # Not even begun.
    for host in HOSTS:
        supervisor.handle(events.AgentJoined(host), 1.0)
    supervisor.handle(events.TaskExited("w0", 1), 2.0)
    assert events.KillTasks(("ps0", "w1")) in supervisor.handle(events.Tick(), 3.0)
    supervisor.handle(events.TaskExited("ps0", -9), 3.1)
    assert end_of(supervisor.handle(events.TaskExited("w1", -9), 3.1)) is not None


_EVENTS = st.one_of(
    st.builds(events.TaskExited, st.sampled_from(sorted(TASKS)), st.sampled_from([0, 1, -9])),
    st.builds(events.TaskFailed, st.sampled_from(sorted(TASKS)), st.just("no")),
    st.builds(events.TaskBound, st.sampled_from(sorted(TASKS)), st.just({})),
    st.builds(events.TaskReady, st.sampled_from(sorted(TASKS))),
    st.builds(done, st.sampled_from(sorted(TASKS))),
    st.builds(events.TaskDisconnected, st.sampled_from(["w0", "w1"]), st.just("lost")),
    st.just(events.Interrupted()),
    st.builds(events.AgentLost, st.sampled_from(HOSTS), st.just("gone")),
    st.just(events.Tick()),
)


_REJOIN_OR_ALL = events.RestartPolicy(rejoin=frozenset({"w1"}), all_tasks=True, max_restarts=2)
_POLICIES = [
    REJOIN,
    RESTART_ALL,
    REASSIGN,
    events.RestartPolicy(),
    _REJOIN_OR_ALL,
    msgspec.structs.replace(_REJOIN_OR_ALL, reassignable=frozenset({"w0", "w1"})),
]


@settings(max_examples=400)
@given(st.lists(_EVENTS, max_size=30), st.sampled_from(_POLICIES))
def test_any_order_of_events_ends_once_and_restarts_only_ended_tasks(
    sequence: list[events.Event], policy: events.RestartPolicy
) -> None:
    supervisor = training(policy)
    alive, disconnected, now_s, starts, ends = set(TASKS), set[str](), 5.0, 0, 0
    script = [*sequence]
    while not supervisor.ended and now_s < 10_000:
        now_s += 0.5
        event: events.Event = script.pop(0) if script else events.Tick()
        if isinstance(event, events.TaskExited):
            if event.task not in alive:
                continue
            alive.discard(event.task)
            disconnected.discard(event.task)
        if isinstance(event, events.TaskDisconnected):
            if event.task not in alive - disconnected or event.task not in policy.reassignable:
                continue
            disconnected.add(event.task)
        for one in supervisor.handle(event, now_s):
            match one:
                case events.StartTasks(tasks, attempt, _, waiting):
                    assert alive & set(tasks) == set(waiting) <= disconnected
                    alive |= set(tasks)
                    disconnected -= set(waiting)
                    starts += 1
                    assert attempt == starts <= policy.max_restarts
                case events.KillTasks(tasks):
                    assert set(tasks) <= alive
                    script = [*(events.TaskExited(task, -9) for task in tasks), *script]
                case events.DisconnectTasks(tasks):
                    assert set(tasks) <= (alive & policy.reassignable) - disconnected
                case events.End():
                    ends += 1
        if not script and isinstance(event, events.Tick) and now_s > 5000:
            script = [events.Interrupted(), events.Interrupted()]
    assert ends == 1


@pytest.mark.parametrize("policy", [REJOIN, RESTART_ALL])
@pytest.mark.parametrize("cause_first", [True, False])
def test_a_permanent_error_is_not_retried_and_is_named_before_errors_that_follow_from_it(
    policy: events.RestartPolicy, cause_first: bool
) -> None:
    supervisor = training(policy)
    cause: list[events.Event] = [events.TaskFailed("w1", "IndexError: 5", permanent=True), events.TaskExited("w1", 1)]
    lost_peer: list[events.Event] = [events.TaskDisconnected("w0", "lost the connection to w1")]
    for event in cause + lost_peer if cause_first else lost_peer + cause:
        assert supervisor.handle(event, 5.0) == []
    assert supervisor.handle(events.Tick(), 6.0) == [
        events.RecordIncident("w1 on h2 failed: IndexError: 5", "w1", "h2"),
        events.KillTasks(("ps0", "w0")),
    ]


@pytest.mark.parametrize("killed_first", [True, False])
def test_a_killed_task_is_the_cause_though_a_peer_reports_a_permanent_error(killed_first: bool) -> None:
    supervisor = training(RESTART_ALL)
    peer_error = events.TaskFailed("w0", "RuntimeError: bad address", permanent=True)
    script: list[events.Event] = [events.TaskExited("w1", -9), peer_error]
    said = [one for event in (script if killed_first else script[::-1]) for one in supervisor.handle(event, 5.0)]
    assert events.RecordIncident("w1 on h2 was killed by SIGKILL", "w1", "h2") in said
    said += [one for task in TASKS for one in supervisor.handle(events.TaskExited(task, -9), 5.1)]
    assert events.StartTasks(tuple(TASKS), 1) in said
