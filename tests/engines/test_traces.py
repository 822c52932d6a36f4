"""Splitting a traced TensorFlow step: pure, on made-up traces whose phases are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines.tensorflow.traces import Event, TracePlan, split

WORKER, SERVER = "/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"


def event(device: str, name: str, op: str, start: float, end: float) -> Event:
    return Event(device, name, f"{name} = {op}(x)", start, end)


def test_an_asynchronous_step() -> None:
    found = split(
        [
            event(WORKER, "x", "_Arg", 0, 0),
            event(WORKER, "RecvTensor", "", 0, 300),
            event(WORKER, "MatMul", "MatMul", 300, 500),
            event(WORKER, "gradients/MatMul", "MatMul", 500, 800),
            event(SERVER, "apply", "ResourceApplyGradientDescent", 5900, 5950),
            event(WORKER, "RecvTensor", "", 850, 1200),
        ]
    )
    assert found == pytest.approx({"pull": 300e-6, "compute": 500e-6, "push": 400e-6, "wait": 0})


def test_waiting_for_a_token_is_told_apart_from_the_push() -> None:
    found = split(
        [
            event(WORKER, "RecvTensor", "", 0, 100),
            event(WORKER, "gradients/MatMul", "MatMul", 100, 200),
            event(SERVER, "push", "ResourceAccumulatorApplyGradient", 9_000, 9_100),
            event(SERVER, "token", "QueueDequeueV2", 9_000, 9_700),
            event(WORKER, "RecvTensor", "", 250, 1_000),
        ]
    )
    assert found == pytest.approx({"pull": 100e-6, "compute": 100e-6, "push": 200e-6, "wait": 600e-6})


def test_nothing_from_the_worker_is_no_split() -> None:
    assert split([]) == {}
    assert split([event(SERVER, "apply", "Apply", 0, 10)]) == {}


_events = st.builds(
    event,
    st.sampled_from([WORKER, SERVER]),
    st.sampled_from(["RecvTensor", "MatMul", "gradients/MatMul", "push/0/pack", "_SOURCE"]),
    st.sampled_from(["MatMul", "QueueDequeueV2", "ResourceAccumulatorApplyGradient", "Const", ""]),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)


@given(st.lists(_events, max_size=20))
def test_phases_are_never_negative_and_add_up_to_the_span(events: list[Event]) -> None:
    found = split(events)
    here = [e for e in events if e.device == WORKER and e.end_us >= e.start_us]
    if not here:
        assert found == {}
        return
    span = (max(e.end_us for e in here) - min(e.start_us for e in here)) / 1e6
    assert all(seconds >= -1e-9 for seconds in found.values())
    assert sum(found.values()) == pytest.approx(span, abs=1e-6)


def test_traces_are_few_and_begin_early() -> None:
    plan = TracePlan(None)
    assert [step for step in range(1000) if plan.due(step)] == [5, 10, 20, 40, 80, 140, 205, 405, 605, 805]
    asked = TracePlan(300)
    assert [step for step in range(1000) if asked.due(step)] == [5, 305, 605, 905]
    never = TracePlan(0)
    assert not any(never.due(step) for step in range(1000))
    always = TracePlan(1)
    assert sum(always.due(step) for step in range(1000)) == 25
