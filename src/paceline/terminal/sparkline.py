"""Series of the live view as one character per second. Pure."""

from collections.abc import Sequence
from math import isfinite

from rich.text import Text

from paceline.control.run_state import Mark, RunState
from paceline.present.colours import FAULT_COLOUR, INCIDENT_COLOUR
from paceline.present.numbers import loss, number

_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 60
_LEAST_SPARKS = 4
_BETWEEN = 3
"""Spaces between two sparklines in one line."""


def sparklines(state: RunState, width: int, *, one_line: bool) -> list[Text]:
    """Throughput and training loss of the last seconds, beside each other if there is to be only one line."""
    known = [value for value in state.losses if isfinite(value)]
    if not known or not state.plan.trains:
        return [_throughput(state, width)] if state.throughput else []
    room = (width - _BETWEEN) // 2 if one_line else width
    both = [_throughput(state, room), _loss(state, known, room)]
    return [Text(" " * _BETWEEN).join(both)] if one_line else both


def _throughput(state: RunState, room: int) -> Text:
    title, highest = "updates/s ", max(state.throughput)
    scale = f" highest {number(highest)}"
    values = _last(state.throughput, room - len(title) - len(scale))
    # A rate of 0 has a character of its own, so that a stop cannot be taken for a small rate.
    sparks = ["_" if not value else _spark(value / highest) for value in values]
    return Text(title, style="dim").append_text(_marked(sparks, state)).append(scale)


def _loss(state: RunState, known: Sequence[float], room: int) -> Text:
    title, now = "loss ", f" now {loss(known[-1])}"
    values = _last(state.losses, room - len(title) - len(now))
    shown = [value for value in values if isfinite(value)]
    low, span = min(shown, default=0.0), max(shown, default=0.0) - min(shown, default=0.0)
    sparks = [_spark((value - low) / span if span else 0.0) if isfinite(value) else " " for value in values]
    return Text(title, style="dim").append_text(_marked(sparks, state)).append(now)


def _last(values: Sequence[float], room: int) -> Sequence[float]:
    return values[-max(_LEAST_SPARKS, min(_MOST_SPARKS, room)) :]


def _spark(share: float) -> str:
    return _SPARKS[round(share * (len(_SPARKS) - 1))]


def _marked(sparks: Sequence[str], state: RunState) -> Text:
    """The characters, those of seconds with a fault or an incident in its colour. The last one is that of now."""
    line = Text(style="not dim default")
    for index, spark in enumerate(sparks):
        at_s = state.elapsed_s - (len(sparks) - 1 - index)
        kinds = {mark.kind for mark in state.marks if _concerns(mark, at_s)}
        line.append(spark, style=FAULT_COLOUR if "fault" in kinds else INCIDENT_COLOUR if kinds else "")
    return line


def _concerns(mark: Mark, at_s: float) -> bool:
    """Whether the mark is in the second before `at_s`; a fault that lasts is in every second since it began."""
    over_s = at_s if mark.lasts else mark.at_s if mark.over_s is None else mark.over_s
    return mark.at_s < at_s and over_s > at_s - 1
