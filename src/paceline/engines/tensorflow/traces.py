"""Chooses the steps to trace, and splits the trace of one parameter-server step into the phases of the step.

Only differences between times of the same device are used, so the clocks of worker and server need not agree:

    first op ...... last parameters arrive ...... last gradient ...... end      (worker's clock)
             pull                        compute               push
                                                               wait             (a duration, server's clock)

Communication that overlaps with computation counts as compute. Pull and push are only the parts that do not overlap.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

_EARLY_STEPS = (1, 5, 10, 20, 40, 80, 140)
"""Steps that are traced by default, so that a short run has enough traces as well. Step 1 is the second: if steps take
seconds, a run may have only a few, and the first is not typical."""
_FIRST_OF_INTERVAL = 5
"""The step of every interval that is traced."""
_DEFAULT_EVERY = 200
"""Steps between two later traces."""
_MAX_TRACES = 25
"""The most traces of one worker in a run; a traced step is slow, and more traces would hardly change the result."""


class TracePlan:
    """Decides which steps to trace: some early ones, then one in every `every` steps; 0 means none."""

    def __init__(self, every: int | None) -> None:
        self._every = _DEFAULT_EVERY if every is None else every
        self._early = _EARLY_STEPS if every is None else ()
        self._traced = 0

    def due(self, step: int) -> bool:
        """Whether to trace this step; to be called once for each step."""
        if not self._every or self._traced >= _MAX_TRACES:
            return False
        if step not in self._early and step % self._every != min(_FIRST_OF_INTERVAL, self._every - 1):
            return False
        self._traced += 1
        return True


class TraceEvent(NamedTuple):
    """The execution of one op on one device."""

    device: str
    name: str
    label: str
    """`name = Type(inputs)`"""
    start_us: float
    end_us: float


def split_phases(events: Iterable[TraceEvent]) -> dict[str, float]:
    """Seconds of pull, compute, push and wait, which add up to the time span of the worker's events; empty without
    events of the worker."""
    valid = [event for event in events if event.end_us >= event.start_us]
    worker_events = [event for event in valid if "/job:worker" in event.device]
    server_events = [event for event in valid if "/job:ps" in event.device]
    if not worker_events:
        return {}
    ops = [event for event in worker_events if not _is_receive(event) and not _is_idle(event)]
    first, end = min(event.start_us for event in worker_events), max(event.end_us for event in worker_events)
    # Computing ends with the last op that computes or packs a gradient. It need not be the last op of all: the loss may
    # be averaged later, while the gradients are pushed.
    gradient_ops = [event for event in ops if event.name.startswith("push/") or "gradients" in event.name] or ops
    computed = max((event.end_us for event in gradient_ops), default=first)
    pulled = max((e.end_us for e in worker_events if _is_receive(e) and e.end_us <= computed), default=first)
    # What was computed before the last parameters arrived.
    overlap = _union_length([(event.start_us, min(event.end_us, pulled)) for event in ops if event.start_us < pulled])
    after_compute = max(0.0, end - computed)
    wait = min(_server_wait(server_events), after_compute)
    times = {
        "pull": pulled - first - overlap,
        "compute": computed - pulled + overlap,
        "push": after_compute - wait,
        "wait": wait,
    }
    return {phase: time / 1e6 for phase, time in times.items()}


def _server_wait(server_events: list[TraceEvent]) -> float:
    """How long, in microseconds, the server let this worker wait after it had received its gradients."""
    pushed = max((event.end_us for event in server_events if _is_push(event)), default=None)
    if pushed is None:
        return 0.0
    blocking_ops = ("QueueDequeue", "AccumulatorTakeGradient")
    released = [event.end_us for event in server_events if any(op in _op_type(event) for op in blocking_ops)]
    return max(0.0, max(released, default=pushed) - pushed)


def _is_push(event: TraceEvent) -> bool:
    return "AccumulatorApplyGradient" in _op_type(event) or event.name == "push_rows"


def _op_type(event: TraceEvent) -> str:
    """The type of the op, from a label like `name = Type(inputs)`."""
    return event.label.partition(" = ")[2].partition("(")[0]


def _is_receive(event: TraceEvent) -> bool:
    return event.name == "RecvTensor" or _op_type(event) in ("_Recv", "_HostRecv")


def _is_idle(event: TraceEvent) -> bool:
    """Whether the op computes nothing."""
    return event.name in ("_SOURCE", "_SINK") or _op_type(event) == "Const"


def _union_length(intervals: list[tuple[float, float]]) -> float:
    """The length of the union of the intervals; time that several of them cover counts once."""
    total, covered_until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return total


def events_from_metadata(metadata: Any) -> list[TraceEvent]:
    """The events of a tf.compat.v1.RunMetadata."""
    return [
        TraceEvent(
            device.device,
            node.node_name,
            node.timeline_label,
            node.all_start_micros,
            node.all_start_micros + node.all_end_rel_micros,
        )
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    ]
