"""Splits one traced run of a parameter-server step into its phases. Pure but for the last function.

Only differences between times of one device are used, so the clocks of worker and server need not agree:

    first op ...... last parameters arrive ...... last gradient ...... end      (worker's clock)
             pull                        compute               push
                                                               wait             (a duration, server's clock)

What overlaps with computing counts as compute: pull and push are the exposed parts.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

_EARLY_TRACES = (5, 10, 20, 40, 80, 140)
_DEFAULT_EVERY = 200
_MOST_TRACES = 25


class TracePlan:
    """Which steps to trace: some early ones, so that short runs have enough to go by, then now and then."""

    def __init__(self, every: int | None) -> None:
        self._every = _DEFAULT_EVERY if every is None else every
        self._early = _EARLY_TRACES if every is None else ()
        self._made = 0

    def due(self, step: int) -> bool:
        if not self._every or self._made >= _MOST_TRACES:
            return False
        if step not in self._early and step % self._every != min(_EARLY_TRACES[0], self._every - 1):
            return False
        self._made += 1
        return True


class Event(NamedTuple):
    device: str
    name: str
    label: str
    start_us: float
    end_us: float


def split(events: Iterable[Event]) -> dict[str, float]:
    """Seconds of pull, compute, push and wait; they add up to the span of the worker's events."""
    kept = [event for event in events if event.end_us >= event.start_us]
    here = [event for event in kept if "/job:worker" in event.device]
    there = [event for event in kept if "/job:ps" in event.device]
    if not here:
        return {}
    ops = [event for event in here if not _is_receive(event) and not _is_idle(event)]
    first, end = min(event.start_us for event in here), max(event.end_us for event in here)
    # The last op on the way to the server. Not simply the last op: the loss may be averaged later, beside the push.
    sends = [event for event in ops if event.name.startswith("push/") or "gradients" in event.name] or ops
    computed = max((event.end_us for event in sends), default=first)
    pulled = max((e.end_us for e in here if _is_receive(e) and e.end_us <= computed), default=first)
    early = _length([(event.start_us, min(event.end_us, pulled)) for event in ops if event.start_us < pulled])
    tail = max(0.0, end - computed)
    wait = min(_waited(there), tail)
    times = {"pull": pulled - first - early, "compute": computed - pulled + early, "push": tail - wait, "wait": wait}
    return {phase: time / 1e6 for phase, time in times.items()}


def _waited(there: list[Event]) -> float:
    """How long the server kept this worker after its gradients had been taken in."""
    pushed = max((event.end_us for event in there if _is_push(event)), default=None)
    if pushed is None:
        return 0.0
    blocking = ("QueueDequeue", "AccumulatorTakeGradient")
    released = [event.end_us for event in there if any(kind in _op(event) for kind in blocking)]
    return max(0.0, max(released, default=pushed) - pushed)


def _is_push(event: Event) -> bool:
    return "AccumulatorApplyGradient" in _op(event) or event.name == "push_rows"


def _op(event: Event) -> str:
    """Type of the node, from a label like `name = Type(inputs)`."""
    return event.label.partition(" = ")[2].partition("(")[0]


def _is_receive(event: Event) -> bool:
    return event.name == "RecvTensor" or _op(event) in ("_Recv", "_HostRecv")


def _is_idle(event: Event) -> bool:
    return event.name in ("_SOURCE", "_SINK") or _op(event) == "Const"


def _length(intervals: list[tuple[float, float]]) -> float:
    total, reach = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return total


def from_metadata(metadata: Any) -> list[Event]:
    """Events of a tf.compat.v1.RunMetadata."""
    return [
        Event(
            device.device,
            node.node_name,
            node.timeline_label,
            node.all_start_micros,
            node.all_start_micros + node.all_end_rel_micros,
        )
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    ]
