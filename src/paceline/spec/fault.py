"""Faults to inject into a run: parse `freeze w2 for 5s at 10s` into a `Fault`, and write a `Fault` as such text.

The text is a kind of fault, a task or host, then clauses in any order: `to` (the limit), `for` (the duration) and `at`
(the step or the time at which the fault begins).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from paceline import units
from paceline.errors import SpecError, unknown

HostFault = Literal["cut", "slow", "limit"]
"""The faults that change a host while it runs. The others are signals to tasks, which every host can deliver."""
FaultKind = Literal["kill", "freeze", HostFault]
HOST_FAULTS: frozenset[HostFault] = frozenset(get_args(HostFault))
_EXAMPLES: Mapping[FaultKind, str] = {
    "kill": "kill w1 at step 500",
    "freeze": "freeze w1 for 5s at 10s",
    "cut": "cut h2 for 5s at 10s",
    "slow": "slow h3 to 0.2 cpus at 10s",
    "limit": "limit h2 to 10mbit at 20s",
}
_CLAUSES = ("to", "for", "at")
_LIMIT_EXAMPLES: Mapping[FaultKind, str] = {"slow": "to 0.2 cpus", "limit": "to 10mbit"}
_KINDS_WITH_DURATION: tuple[FaultKind, ...] = ("freeze", "cut")
"""The kinds that need a `for` clause: without an end, the run could not continue."""
_TASK, _HOST = re.compile(r"(w|ps)\d{1,4}", re.ASCII), re.compile(r"h\d{1,4}", re.ASCII)
_STEP = re.compile(r"step (\d{1,12})", re.ASCII)
_MAX_SECONDS = 10**6
_MIN_DURATION_S = 0.001
_DECIMALS = 6
"""Values are rounded to this many decimals when parsed, so that a fault written as text parses as equal."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. It begins at `at_step` or at `at_s`; without `for_s` it lasts until the run ends."""

    kind: FaultKind
    target: str
    """The name of a task (w1, ps0) or of a host (h2)."""
    at_step: int | None = None
    """The number of updates at which it begins, as last reported to the controller."""
    at_s: float | None = None
    """The time at which it begins, in seconds after the start of training."""
    for_s: float | None = None
    """The duration in seconds."""
    cpus: float | None = None
    """The number of cores left to the host; only for `slow`."""
    link_bits_s: int | None = None
    """The rate of the host's link in bit/s; only for `limit`."""

    @classmethod
    def parse(cls, text: str) -> "Fault":
        words = text.lower().split()
        if not words:
            raise SpecError(f"fault '{text}' is empty: write e.g. {_EXAMPLES['kill']}")
        if words[0] not in _EXAMPLES:
            raise SpecError(unknown("fault", words[0], _EXAMPLES))
        kind: FaultKind = next(kind for kind in get_args(FaultKind) if kind == words[0])
        try:
            target = _target(kind, words[1] if len(words) > 1 else "")
            clauses = _clauses(words[2:])
            limit = _limit(kind, clauses)
            at_step, at_s = _start(clauses)
            return cls(
                kind=kind,
                target=target,
                at_step=at_step,
                at_s=at_s,
                for_s=_duration(kind, clauses),
                cpus=_cpus(limit) if kind == "slow" else None,
                link_bits_s=units.bits_per_second(limit) if kind == "limit" else None,
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
    """The faults that a spec gives as text, as a `Fault`, or as a list of these."""
    faults = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    # A Fault made in Python is written as text and parsed again, so that the same checks apply to it.
    return parse_faults([str(fault) for fault in faults])


def _clauses(words: Sequence[str]) -> dict[str, str]:
    """The text of each clause by its first word: `for 5s at step 9` -> {"for": "5s", "at": "step 9"}."""
    clauses: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in words:
        if word in _CLAUSES:
            if word in clauses:
                raise SpecError(f"'{word}' is given twice: give it once")
            current = clauses[word] = []
        elif current is None:
            raise SpecError(unknown("clause", word, _CLAUSES))
        else:
            current.append(word)
    return {name: " ".join(values) for name, values in clauses.items()}


def _target(kind: FaultKind, name: str) -> str:
    if not _TASK.fullmatch(name) and not _HOST.fullmatch(name):
        raise SpecError(f"'{name}' is neither a task (w1, ps0) nor a host (h2)")
    if kind == "kill" and _HOST.fullmatch(name):
        raise SpecError(f"kill takes a task (w1, ps0), but {name} is a host")
    if kind in ("cut", "slow", "limit") and _TASK.fullmatch(name):
        raise SpecError(f"{kind} takes a host (h2), but {name} is a task")
    return name


def _start(clauses: Mapping[str, str]) -> tuple[int | None, float | None]:
    """The step or the time in seconds at which the fault begins; the other one is None."""
    text = clauses.get("at")
    if text is None:
        raise SpecError("the start is missing: add 'at step 500' or 'at 10s'")
    if text.startswith("step"):
        if not (match := _STEP.fullmatch(text)) or not int(match[1]):
            raise SpecError(f"'{text}' is not a step: write 'step' and a whole number above 0 (at most 12 digits)")
        return int(match[1]), None
    return None, _seconds(text, minimum=0.0)


def _duration(kind: FaultKind, clauses: Mapping[str, str]) -> float | None:
    if "for" not in clauses:
        if kind in _KINDS_WITH_DURATION:
            raise SpecError("the duration is missing: add e.g. 'for 5s'")
        return None
    if kind == "kill":
        raise SpecError(f"kill takes no duration: remove 'for {clauses['for']}'")
    return _seconds(clauses["for"], minimum=_MIN_DURATION_S)


def _limit(kind: FaultKind, clauses: Mapping[str, str]) -> str:
    """The text of the `to` clause; empty for the kinds that take none."""
    if kind in _LIMIT_EXAMPLES and "to" not in clauses:
        raise SpecError(f"the limit is missing: add e.g. '{_LIMIT_EXAMPLES[kind]}'")
    if kind not in _LIMIT_EXAMPLES and "to" in clauses:
        raise SpecError(f"{kind} takes no limit: remove 'to {clauses['to']}'")
    return clauses.get("to", "")


def _cpus(text: str) -> float:
    return round(units.cpus(text.removesuffix("cpus").removesuffix("cpu").strip()), _DECIMALS)


def _seconds(text: str, *, minimum: float) -> float:
    seconds = round(units.seconds(text), _DECIMALS)
    if not minimum <= seconds <= _MAX_SECONDS:
        raise SpecError(f"time '{text}': must be from {minimum:g}s to {_MAX_SECONDS}s")
    return seconds


def _number(value: float) -> str:
    """The number without trailing zeros and without an exponent."""
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def not_injected(faults: Iterable[Fault], injected: Iterable[str]) -> list[Fault]:
    """The faults without those that were injected already; a fault that is requested twice is injected twice."""
    left = list(faults)
    for what in injected:
        if happened := next((fault for fault in left if str(fault) == what), None):
            left.remove(happened)
    return left
