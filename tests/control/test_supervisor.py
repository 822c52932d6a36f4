"""Failure handling as a function of events: every order can be played without a process."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.supervised import HOSTS, PLACES, TASKS, done, end_of, started, training
from paceline.control import events as events
from paceline.control.run_state import WaitingFor
from paceline.control.startup_deadline import STARTUP_DEADLINE_S
from paceline.control.supervisor import HALT_DEADLINE_S, Supervisor


def test_tasks_start_when_all_agents_are_there() -> None:
    supervisor = Supervisor(HOSTS, PLACES, 0.0)
    assert supervisor.handle(events.AgentJoined("h1"), 1.0) == []
    assert supervisor.handle(events.AgentJoined("h2"), 1.0) == [events.StartTasks(("ps0", "w0", "w1"))]


def test_the_barrier_opens_when_the_last_task_is_ready_whatever_the_order() -> None:
    for order in permutations(TASKS):
        supervisor = started()
        said = [supervisor.handle(events.TaskBound(task, {"p": task}), 2.0) for task in order]
        assert said[:2] == [[], []]
        assert said[2] == [events.SendPeers(tuple(TASKS), {task: {"p": task} for task in order})]
        said = [supervisor.handle(events.TaskReady(task), 3.0) for task in order]
        assert said == [[], [], [events.OpenBarrier(tuple(TASKS))]]


def test_what_a_run_waits_for_is_known_at_each_stage() -> None:
    supervisor = Supervisor(HOSTS, PLACES, 0.0)
    supervisor.handle(events.AgentJoined("h1"), 1.0)
    assert supervisor.waiting_for == WaitingFor("the agents to start", ("h2",))
    supervisor.handle(events.AgentJoined("h2"), 1.0)
    supervisor.handle(events.TaskBound("w0", {}), 2.0)
    assert supervisor.waiting_for == WaitingFor("the tasks to start", ("ps0 on h1", "w1 on h2"))
    for task in ("ps0", "w1"):
        supervisor.handle(events.TaskBound(task, {}), 2.0)
    supervisor.handle(events.TaskReady("ps0"), 3.0)
    assert supervisor.waiting_for == WaitingFor("the tasks to connect and compile", ("w0 on h1", "w1 on h2"))
    supervisor = training()
    assert supervisor.waiting_for is None
    supervisor.handle(events.Interrupted(), 9.0)
    assert supervisor.waiting_for == WaitingFor("the tasks to halt", ("ps0 on h1", "w0 on h1", "w1 on h2"))


def test_a_run_whose_workers_finish_is_ok_and_servers_are_told() -> None:
    supervisor = training()
    assert supervisor.handle(done("w0"), 10.0) == []
    assert supervisor.handle(done("w1"), 10.0) == [events.AskToHalt(("ps0",))]
    supervisor.handle(events.TaskExited("w0", 0), 10.1)
    supervisor.handle(events.TaskExited("w1", 0), 10.1)
    supervisor.handle(done("ps0"), 10.2)
    assert supervisor.handle(events.TaskExited("ps0", 0), 10.3) == [events.End("ok")]


def test_a_server_that_does_not_hear_is_killed_and_the_run_is_still_ok() -> None:
    supervisor = training()
    for task in ("w0", "w1"):
        supervisor.handle(done(task), 10.0)
        supervisor.handle(events.TaskExited(task, 0), 10.0)
    assert supervisor.handle(events.Tick(), 12.0) == []
    assert supervisor.handle(events.Tick(), 14.0) == [events.KillTasks(("ps0",))]
    assert supervisor.handle(events.TaskExited("ps0", -9), 14.1) == [events.End("ok")]


def test_a_killed_worker_is_named_with_host_and_signal_and_the_rest_is_killed() -> None:
    supervisor = training()
    assert supervisor.handle(events.TaskExited("w1", -9), 10.0) == [
        events.RecordIncident("w1 on h2 was killed by SIGKILL", "w1", "h2"),
        events.KillTasks(("ps0", "w0")),
    ]
    supervisor.handle(events.TaskExited("w0", -9), 10.9)
    end = events.End("failed", "w1 on h2 was killed by SIGKILL")
    assert supervisor.handle(events.TaskExited("ps0", -9), 11.0) == [end]


def test_the_killed_one_is_blamed_though_others_complain_first() -> None:
    supervisor = training()
    supervisor.handle(events.TaskFailed("w0", "connection reset"), 10.0)
    supervisor.handle(events.TaskExited("w0", 1), 10.05)
    supervisor.handle(events.TaskExited("ps0", -11), 10.2)
    said = supervisor.handle(events.Tick(), 11.0)
    assert said[0] == events.RecordIncident("ps0 on h1 was killed by SIGSEGV", "ps0", "h1")


def test_a_task_that_fails_alone_is_quoted() -> None:
    supervisor = training()
    supervisor.handle(events.TaskFailed("w0", "ValueError: no"), 10.0)
    supervisor.handle(events.TaskExited("w0", 1), 10.0)
    incident = events.RecordIncident("w0 on h1 failed: ValueError: no", "w0", "h1")
    assert supervisor.handle(events.Tick(), 11.0)[0] == incident


def test_a_workload_that_is_wrong_refuses_the_run_before_training_and_fails_it_later() -> None:
    mistake = events.TaskFailed("w0", "evaluate returned float", permanent=True, in_workload=True)
    before, during = started(), training()
    for supervisor in (before, during):
        supervisor.handle(mistake, 10.0)
        supervisor.handle(events.TaskExited("w0", 1), 10.0)
    assert before.handle(events.Tick(), 11.0) == [events.KillTasks(("ps0", "w1"))]
    before.handle(events.TaskExited("w1", -9), 11.1)
    end = events.End("failed", "evaluate returned float", refused=True)
    assert before.handle(events.TaskExited("ps0", -9), 11.1) == [end]
    line = "w0 on h1 failed: evaluate returned float"
    assert during.handle(events.Tick(), 11.0)[0] == events.RecordIncident(line, "w0", "h1")


def test_out_of_memory_is_named() -> None:
    supervisor = training()
    assert supervisor.handle(events.TaskExited("w0", -9, oom=True), 10.0)[0] == events.RecordIncident(
        "w0 on h1 was killed: out of memory", "w0", "h1"
    )


def test_a_lost_agent_ends_the_run() -> None:
    supervisor = training()
    supervisor.handle(events.AgentLost("h2", "its pipe was closed"), 10.0)
    said = supervisor.handle(events.Tick(), 11.0)
    assert said[0] == events.RecordIncident("lost the agent of h2: its pipe was closed", None, "h2")
    end = events.End("failed", "lost the agent of h2: its pipe was closed")
    assert end_of(supervisor.handle(events.Tick(), 15.0)) == end


def test_a_stuck_task_fails_the_run_in_the_words_it_was_found_with() -> None:
    supervisor = training()
    supervisor.handle(events.TaskStuck("w1", "w1 on h2 is stuck"), 10.0)
    assert supervisor.handle(events.Tick(), 11.0) == [
        events.RecordIncident("w1 on h2 is stuck", "w1", "h2"),
        events.KillTasks(("ps0", "w0", "w1")),
    ]


def test_a_stuck_task_that_may_rejoin_is_killed_and_comes_back() -> None:
    policy = events.RestartPolicy(rejoin=frozenset({"w1"}), max_restarts=1)
    supervisor = Supervisor(HOSTS, PLACES, 0.0, policy=policy)
    for host in HOSTS:
        supervisor.handle(events.AgentJoined(host), 1.0)
    for task in TASKS:
        supervisor.handle(events.TaskBound(task, {}), 2.0)
    for task in TASKS:
        supervisor.handle(events.TaskReady(task), 3.0)
    assert supervisor.handle(events.TaskStuck("w1", "w1 on h2 is stuck"), 10.0) == [
        events.RecordIncident("w1 on h2 is stuck", "w1", "h2"),
        events.KillTasks(("w1",)),
    ]
    assert events.StartTasks(("w1",), 1, all_tasks=False) in supervisor.handle(events.TaskExited("w1", -9), 10.1)


def test_tasks_that_went_with_their_agent_are_not_waited_for() -> None:
    supervisor = training()
    supervisor.handle(events.AgentLost("h2", "silent"), 10.0)
    assert events.KillTasks(("ps0", "w0")) in supervisor.handle(events.Tick(), 11.0)
    supervisor.handle(events.TaskExited("w0", -9), 11.1)
    assert end_of(supervisor.handle(events.TaskExited("ps0", -9), 11.1))


def test_a_start_that_takes_too_long_names_who_is_missing() -> None:
    supervisor = started()
    supervisor.handle(events.TaskBound("w0", {}), 2.0)
    said = supervisor.handle(events.Tick(), STARTUP_DEADLINE_S + 1)
    assert isinstance(said[0], events.RecordIncident)
    assert "ps0 on h1, w1 on h2" in said[0].what


def test_a_worker_without_a_step_makes_the_run_not_ok() -> None:
    supervisor = training()
    supervisor.handle(done("w0"), 10.0)
    supervisor.handle(done("w1", steps=0), 10.0)
    supervisor.handle(done("ps0"), 10.0)
    ends = [end_of(supervisor.handle(events.TaskExited(task, 0), 11.0)) for task in TASKS]
    assert ends[-1] == events.End("failed", "w1 on h2 made no step")


@pytest.mark.parametrize("steps", [5, 0])
def test_a_loss_that_is_no_number_is_diverged_though_another_had_no_time_for_a_step(steps: int) -> None:
    supervisor = training()
    supervisor.handle(done("w0", diverged=True), 10.0)
    supervisor.handle(done("w1", steps=steps), 10.0)
    supervisor.handle(done("ps0"), 10.0)
    end = [end_of(supervisor.handle(events.TaskExited(task, 0), 11.0)) for task in TASKS][-1]
    assert end
    assert end.status == "diverged"


def test_ctrl_c_halts_in_good_order_and_a_second_one_kills() -> None:
    supervisor = training()
    first = supervisor.handle(events.Interrupted(), 10.0)
    assert events.AskToHalt(("w0", "w1")) in first
    assert supervisor.handle(events.Interrupted(), 10.5) == [events.KillTasks(("ps0", "w0", "w1"))]
    for task in ("ps0", "w0"):
        supervisor.handle(events.TaskExited(task, -9), 11.0)
    end = events.End("aborted", "interrupted by the user")
    assert end_of(supervisor.handle(events.TaskExited("w1", -9), 11.0)) == end


def test_the_time_limit_halts_in_good_order_and_the_run_has_failed() -> None:
    supervisor = training()
    line = "did not reach loss=0.35 within the time limit of 1h"
    answer = supervisor.handle(events.TimeLimitReached(line), 10.0)
    assert answer == [events.RecordIncident(line), events.AskToHalt(("w0", "w1"))]
    assert supervisor.handle(events.TimeLimitReached(line), 10.1) == []
    for task in ("w0", "w1", "ps0"):
        supervisor.handle(done(task), 11.0)
    answers = [supervisor.handle(events.TaskExited(task, 0), 12.0) for task in ("w0", "w1", "ps0")]
    assert answers[-1] == [events.End("failed", line)]


def test_the_time_limit_counts_only_while_the_run_trains() -> None:
    assert started().handle(events.TimeLimitReached("late"), 10.0) == []


def test_ctrl_c_that_is_not_heard_kills_within_its_deadline() -> None:
    supervisor = training()
    supervisor.handle(events.Interrupted(), 10.0)
    assert supervisor.handle(events.Tick(), 10.0 + HALT_DEADLINE_S) == [events.KillTasks(("ps0", "w0", "w1"))]
    assert end_of(supervisor.handle(events.Tick(), 30.0)) == events.End("aborted", "interrupted by the user")


def test_ctrl_c_before_anything_runs_ends_at_once() -> None:
    assert Supervisor(HOSTS, PLACES, 0.0).handle(events.Interrupted(), 0.1) == [
        events.End("aborted", "interrupted by the user")
    ]


_task = st.sampled_from(sorted(TASKS))
_event = st.one_of(
    st.builds(events.AgentJoined, st.sampled_from(HOSTS)),
    st.builds(events.AgentLost, st.sampled_from(HOSTS), st.just("gone")),
    st.builds(events.TaskBound, _task, st.just({})),
    st.builds(events.TaskReady, _task),
    st.builds(events.TaskFailed, _task, st.just("no")),
    st.builds(events.TaskExited, _task, st.sampled_from([0, 1, -9])),
    st.builds(events.TaskStuck, st.none() | _task, st.just("stuck")),
    st.builds(done, _task),
    st.just(events.Interrupted()),
    st.just(events.Tick()),
)


@settings(max_examples=1000)
@given(st.lists(st.tuples(_event, st.floats(0.01, 2.0)), max_size=40), st.booleans())
def test_any_order_of_events_ends_the_run_exactly_once(script: list[tuple[events.Event, float]], late: bool) -> None:
    supervisor, now, ends = (training() if late else Supervisor(HOSTS, PLACES, 0.0)), 5.0, 0
    for event, pause in script:
        now += pause
        ends += end_of(supervisor.handle(event, now)) is not None
    if not supervisor.ended:
        # Every agent gone and time passing must be enough, whatever came before.
        ends += end_of(supervisor.handle(events.AgentLost("h1", "gone"), now)) is not None
        for _ in range(4):
            now += STARTUP_DEADLINE_S
            ends += end_of(supervisor.handle(events.Tick(), now)) is not None
    assert supervisor.ended
    assert ends == 1


@pytest.mark.parametrize("number", [9, 15, 64, 200])
def test_every_signal_has_a_name(number: int) -> None:
    supervisor = training()
    told = supervisor.handle(events.TaskExited("w0", -number), 10.0)
    said = [*told, *supervisor.handle(events.Tick(), 11.0)][0]
    assert isinstance(said, events.RecordIncident)
    assert "signal" in said.what.lower() or "SIG" in said.what
