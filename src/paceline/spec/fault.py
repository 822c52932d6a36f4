"""Faults to be caused in a run: `freeze w2 for 5s at 10s` as a typed value, and back in the same form.

A verb, a task or host, then clauses in any order: `to` (how far), `for` (how long) and `at` (when).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from paceline import units
from paceline.errors import SpecError, unknown

FaultKind = Literal["kill", "freeze", "cut", "slow", "limit"]
_EXAMPLES: Mapping[FaultKind, str] = {
    "kill": "kill w1 at step 500",
    "freeze": "freeze w1 for 5s at 10s",
    "cut": "cut h2 for 5s at 10s",
    "slow": "slow h3 to 0.2 cpus at 10s",
    "limit": "limit h2 to 10mbit at 20s",
}
_CLAUSES = ("to", "for", "at")
_TASK, _HOST = re.compile(r"(w|ps)\d{1,4}", re.ASCII), re.compile(r"h\d{1,4}", re.ASCII)
_STEP = re.compile(r"step (\d{1,12})", re.ASCII)
MOST_SECONDS = 10**6
_LEAST_SECONDS = 0.001
_DIGITS = 6
"""After the point: what is written down reads as the same."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbance; `at_step` or `at_s` says when it begins, and what has no `for_s` lasts."""

    kind: FaultKind
    target: str
    """A task or a host."""
    at_step: int | None = None
    """Of the run's updates, as the controller last heard."""
    at_s: float | None = None
    """Seconds after the barrier opened."""
    for_s: float | None = None
    cpus: float | None = None
    link_bits_s: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Fault":
        words = text.lower().split()
        if not words:
            raise SpecError(f"fault '{text}' says nothing: write e.g. {_EXAMPLES['kill']}")
        if words[0] not in _EXAMPLES:
            raise SpecError(unknown("fault", words[0], _EXAMPLES))
        kind: FaultKind = next(kind for kind in get_args(FaultKind) if kind == words[0])
        try:
            target = _target(kind, words[1] if len(words) > 1 else "")
            clauses = _clauses(words[2:])
            to = _amount(kind, clauses)
            at_step, at_s = _moment(clauses)
            return cls(
                kind=kind,
                target=target,
                at_step=at_step,
                at_s=at_s,
                for_s=_length(kind, clauses),
                cpus=_cpus(to) if kind == "slow" else None,
                link_bits_s=units.bits_per_second(to) if kind == "limit" else None,
            )
        except SpecError as error:
            raise SpecError(f"fault '{text}': {error}; write e.g. {_EXAMPLES[kind]}") from None

    @property
    def on_host(self) -> bool:
        return _HOST.fullmatch(self.target) is not None

    @property
    def task(self) -> str | None:
        return None if self.on_host else self.target

    @property
    def host(self) -> str | None:
        return self.target if self.on_host else None

    def __str__(self) -> str:
        parts = [self.kind, self.target]
        if self.cpus is not None:
            parts.append(f"to {_number(self.cpus)} cpus")
        if self.link_bits_s is not None:
            parts.append(f"to {units.rate_text(self.link_bits_s)}")
        if self.for_s is not None:
            parts.append(f"for {_number(self.for_s)}s")
        parts.append(f"at step {self.at_step}" if self.at_s is None else f"at {_number(self.at_s)}s")
        return " ".join(parts)


def parse_faults(texts: Sequence[str]) -> tuple[Fault, ...]:
    return tuple(Fault.parse(text) for text in texts)


def read_faults(given: Any) -> tuple[Fault, ...]:
    """Faults from whatever a spec may hold: text, a Fault, or a list of these."""
    faults = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    # A Fault made in Python is written as text and parsed again, so it is checked like any other.
    return parse_faults([str(fault) for fault in faults])


def _clauses(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in words:
        if word in _CLAUSES:
            if word in found:
                raise SpecError(f"'{word}' is there twice")
            current = found[word] = []
        elif current is None:
            raise SpecError(unknown("word", word, _CLAUSES))
        else:
            current.append(word)
    return {word: " ".join(rest) for word, rest in found.items()}


def _target(kind: FaultKind, name: str) -> str:
    if not _TASK.fullmatch(name) and not _HOST.fullmatch(name):
        raise SpecError(f"'{name}' is neither a task (w1, ps0) nor a host (h2)")
    if kind == "kill" and _HOST.fullmatch(name):
        raise SpecError(f"only tasks are killed, and {name} is a host")
    if kind in ("cut", "slow", "limit") and _TASK.fullmatch(name):
        raise SpecError(f"only hosts are {_DONE[kind]}, and {name} is a task")
    return name


_DONE: Mapping[FaultKind, str] = {"cut": "cut", "slow": "slowed", "limit": "limited"}


def _moment(clauses: Mapping[str, str]) -> tuple[int | None, float | None]:
    """At which step, or at which second."""
    text = clauses.get("at")
    if text is None:
        raise SpecError("it does not say when")
    if text.startswith("step"):
        if not (match := _STEP.fullmatch(text)) or not int(match[1]):
            raise SpecError(f"'{text}' is no step: a whole number above 0")
        return int(match[1]), None
    return None, _seconds(text, least=0.0)


def _length(kind: FaultKind, clauses: Mapping[str, str]) -> float | None:
    if "for" not in clauses:
        if kind in ("freeze", "cut"):
            raise SpecError("it does not say for how long")
        return None
    if kind == "kill":
        raise SpecError("what is killed is not so for a while: leave out 'for'")
    return _seconds(clauses["for"], least=_LEAST_SECONDS)


def _amount(kind: FaultKind, clauses: Mapping[str, str]) -> str:
    """What it is to come down to, as it was written."""
    if kind in ("slow", "limit") and "to" not in clauses:
        raise SpecError("it does not say to what")
    if kind not in ("slow", "limit") and "to" in clauses:
        raise SpecError(f"{kind} has no amount: leave out 'to'")
    return clauses.get("to", "")


def _cpus(text: str) -> float:
    return round(units.cpus(text.removesuffix("cpus").removesuffix("cpu").strip()), _DIGITS)


def _seconds(text: str, *, least: float) -> float:
    found = round(units.seconds(text), _DIGITS)
    if not least <= found <= MOST_SECONDS:
        raise SpecError(f"'{text}' is out of bounds: from {least:g}s to {MOST_SECONDS}s")
    return found


def _number(value: float) -> str:
    return f"{value:.{_DIGITS}f}".rstrip("0").rstrip(".")
