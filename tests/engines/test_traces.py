"""Splitting the trace of a TensorFlow step into phases, with constructed traces whose phases are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines.tensorflow.traces import TraceEvent, TracePlan, split_phases

WORKER, SERVER = "/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"


def event(device: str, name: str, op: str, start: float, end: float) -> TraceEvent:
    """`op` is the type of the op; times are in microseconds."""
    return TraceEvent(device, name, f"{name} = {op}(x)", start, end)


def test_asynchronous_step_has_pull_compute_and_push() -> None:
    phases = split_phases(
        [
            event(WORKER, "x", "_Arg", 0, 0),
            event(WORKER, "RecvTensor", "", 0, 300),
            event(WORKER, "MatMul", "MatMul", 300, 500),
            event(WORKER, "gradients/MatMul", "MatMul", 500, 800),
            event(SERVER, "apply", "ResourceApplyGradientDescent", 5900, 5950),
            event(WORKER, "RecvTensor", "", 850, 1200),
        ]
    )
    assert phases == pytest.approx({"pull": 300e-6, "compute": 500e-6, "push": 400e-6, "wait": 0})


def test_waiting_for_a_token_is_separate_from_push() -> None:
    phases = split_phases(
        [
            event(WORKER, "RecvTensor", "", 0, 100),
            event(WORKER, "gradients/MatMul", "MatMul", 100, 200),
            event(SERVER, "push", "ResourceAccumulatorApplyGradient", 9_000, 9_100),
            event(SERVER, "token", "QueueDequeueV2", 9_000, 9_700),
            event(WORKER, "RecvTensor", "", 250, 1_000),
        ]
    )
    assert phases == pytest.approx({"pull": 100e-6, "compute": 100e-6, "push": 200e-6, "wait": 600e-6})


def test_trace_without_worker_events_has_no_phases() -> None:
    assert split_phases([]) == {}
    assert split_phases([event(SERVER, "apply", "Apply", 0, 10)]) == {}


_events = st.builds(
    event,
    st.sampled_from([WORKER, SERVER]),
    st.sampled_from(["RecvTensor", "MatMul", "gradients/MatMul", "push/0/pack", "_SOURCE"]),
    st.sampled_from(["MatMul", "QueueDequeueV2", "ResourceAccumulatorApplyGradient", "Const", ""]),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)


@given(st.lists(_events, max_size=20))
def test_phases_are_never_negative_and_add_up_to_the_time_span(events: list[TraceEvent]) -> None:
    phases = split_phases(events)
    worker_events = [e for e in events if e.device == WORKER and e.end_us >= e.start_us]
    if not worker_events:
        assert phases == {}
        return
    span = (max(e.end_us for e in worker_events) - min(e.start_us for e in worker_events)) / 1e6
    assert all(seconds >= -1e-9 for seconds in phases.values())
    assert sum(phases.values()) == pytest.approx(span, abs=1e-6)


def test_trace_plan_starts_early_and_limits_the_number_of_traces() -> None:
    default = TracePlan(None)
    assert [step for step in range(1000) if default.due(step)] == [1, 5, 10, 20, 40, 80, 140, 205, 405, 605, 805]
    every_300 = TracePlan(300)
    assert [step for step in range(1000) if every_300.due(step)] == [5, 305, 605, 905]
    disabled = TracePlan(0)
    assert not any(disabled.due(step) for step in range(1000))
    every_step = TracePlan(1)
    assert sum(every_step.due(step) for step in range(1000)) == 25
