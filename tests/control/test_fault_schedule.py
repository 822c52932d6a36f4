"""Every order in which faults may begin and end, without a run."""

import signal
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paceline.control.fault_schedule import Action, FaultBegan, FaultEnded, FaultSchedule, SendSignal, SetCondition
from paceline.hosts.base import Condition
from paceline.spec.fault import Fault, not_injected, parse_faults

HOMES = {"ps0": "h1", "w0": "h1", "w1": "h2"}
USUAL = {"h1": Condition(cpus=1.0), "h2": Condition(link_bits_s=10**9)}
STOP, CONT, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL


def schedule(*texts: str) -> FaultSchedule:
    return FaultSchedule(parse_faults(texts), HOMES, USUAL)


def test_a_kill_comes_at_its_step_and_only_once() -> None:
    plan, (fault,) = schedule("kill w1 at step 500"), parse_faults(["kill w1 at step 500"])
    assert plan.due(499, 100.0) == []
    assert plan.due(512, 100.1) == [FaultBegan(fault), SendSignal("w1", KILL)]
    assert plan.due(600, 100.2) == []


def test_a_frozen_host_is_all_its_tasks_and_thaws_as_long_after_it_really_began() -> None:
    plan, (fault,) = schedule("freeze h1 for 5s at 10s"), parse_faults(["freeze h1 for 5s at 10s"])
    assert plan.due(0, 9.9) == []
    assert plan.due(0, 11.0) == [FaultBegan(fault), SendSignal("ps0", STOP), SendSignal("w0", STOP)]
    assert plan.due(0, 15.9) == []
    assert plan.due(0, 16.0) == [SendSignal("ps0", CONT), SendSignal("w0", CONT), FaultEnded(fault)]


def test_a_link_is_cut_and_mended() -> None:
    plan, (fault,) = schedule("cut h2 for 1s at 1s"), parse_faults(["cut h2 for 1s at 1s"])
    assert plan.due(0, 1.0) == [FaultBegan(fault), SetCondition("h2", Condition(linked=False, link_bits_s=10**9))]
    assert plan.due(0, 2.0) == [SetCondition("h2", USUAL["h2"]), FaultEnded(fault)]


def test_without_an_end_it_lasts() -> None:
    plan, (fault,) = schedule("slow h1 to 0.2 cpus at 1s"), parse_faults(["slow h1 to 0.2 cpus at 1s"])
    assert plan.due(0, 1.0) == [FaultBegan(fault), SetCondition("h1", Condition(cpus=0.2))]
    assert plan.due(10**9, 1e6) == []


def test_of_two_limits_the_later_holds_and_the_earlier_comes_back() -> None:
    texts = ["limit h2 to 10mbit for 10s at 1s", "limit h2 to 1mbit for 2s at 2s", "slow h2 to 0.5 cpus for 4s at 2s"]
    plan, (ten, one, slow) = schedule(*texts), parse_faults(texts)
    assert plan.due(0, 1.0) == [FaultBegan(ten), SetCondition("h2", Condition(link_bits_s=10**7))]
    both = Condition(link_bits_s=10**6, cpus=0.5)
    assert plan.due(0, 2.0) == [FaultBegan(one), FaultBegan(slow), SetCondition("h2", both)]
    assert plan.due(0, 4.0) == [SetCondition("h2", Condition(link_bits_s=10**7, cpus=0.5)), FaultEnded(one)]
    assert plan.due(0, 11.0) == [SetCondition("h2", USUAL["h2"]), FaultEnded(ten), FaultEnded(slow)]


def test_who_is_frozen_twice_thaws_when_both_are_over() -> None:
    texts = ["freeze w1 for 5s at 1s", "freeze h2 for 1s at 2s"]
    plan, (long, short) = schedule(*texts), parse_faults(texts)
    assert plan.due(0, 1.0) == [FaultBegan(long), SendSignal("w1", STOP)]
    assert plan.due(0, 2.0) == [FaultBegan(short)]
    assert plan.due(0, 3.0) == [FaultEnded(short)]
    assert plan.due(0, 6.0) == [SendSignal("w1", CONT), FaultEnded(long)]


def test_the_end_of_a_run_undoes_what_is_under_way_and_lets_nothing_begin() -> None:
    texts = ["freeze w1 for 50s at 1s", "cut h2 for 50s at 1s", "kill w0 at 2s"]
    plan, (freeze, cut, _) = schedule(*texts), parse_faults(texts)
    plan.due(0, 1.0)
    assert plan.end() == [SendSignal("w1", CONT), SetCondition("h2", USUAL["h2"]), FaultEnded(freeze), FaultEnded(cut)]
    assert plan.due(0, 100.0) == plan.end() == []


def test_faults_of_the_run_that_is_continued_do_not_happen_again() -> None:
    texts = ["kill w1 at step 500", "kill w0 at step 500", "kill w1 at step 500"]
    assert not_injected(parse_faults(texts), [texts[0]]) == [*parse_faults(texts[1:])]
    assert not_injected(parse_faults(texts), [texts[0], texts[2]]) == [*parse_faults(texts[1:2])]


TEXTS = st.lists(
    st.builds(
        str.format,
        st.sampled_from(
            [
                "freeze w1 for {0}s at {1}s",
                "freeze h1 for {0}s at step {1}",
                "cut h2 for {0}s at {1}s",
                "slow h1 to 0.{0} cpus for {0}s at {1}s",
                "limit h2 to {0}mbit for {0}s at step {1}",
                "kill w0 at {1}s",
            ]
        ),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    max_size=6,
)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 12), st.floats(0, 12)), min_size=1, max_size=12))
def test_whatever_overlaps_all_is_as_usual_in_the_end(texts: list[str], moments: Sequence[tuple[int, float]]) -> None:
    updates, seconds = (sorted(values) for values in zip(*moments, strict=True))
    plan, done = schedule(*texts), list[Action]()
    for update, second in [*zip(updates, seconds, strict=True), (12, 12.0), (12, 99.0)]:
        done += plan.due(update, second)
    began = [action.fault for action in done if isinstance(action, FaultBegan)]
    over = [action.fault for action in done if isinstance(action, FaultEnded)]
    assert sorted(map(str, began)) == sorted(map(str, parse_faults(texts)))
    assert sorted(map(str, over)) == sorted(str(fault) for fault in began if fault.kind != "kill")
    for task in HOMES:
        sent = [action.number for action in done if isinstance(action, SendSignal) and action.task == task]
        marks = [number for number in sent if number != KILL]
        assert marks == [STOP, CONT] * (len(marks) // 2)
    for host, usual in USUAL.items():
        held = [action.condition for action in done if isinstance(action, SetCondition) and action.host == host]
        assert all(before != after for before, after in pairwise([usual, *held]))
        assert not held or held[-1] == usual


def test_faults_begin_in_the_order_they_were_given() -> None:
    texts = ["kill w1 at 1s", "freeze w0 for 1s at 1s"]
    began = [action.fault for action in schedule(*texts).due(0, 1.0) if isinstance(action, FaultBegan)]
    assert began == [Fault.parse(text) for text in texts]
