"""When which fault begins and ends, and what is to be done for it: pure, so that every order can be tested.

The faults under way say what must be so (who is frozen, what each host is held to); what is done is the difference
to what is so already. That way faults may overlap and end in any order.
"""

import signal
from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from paceline.hosts.base import Condition
from paceline.plan.place import RunPlan
from paceline.spec.fault import Fault


class Began(msgspec.Struct, frozen=True):
    """For the run's record, before anything is done."""

    fault: Fault


class Send(msgspec.Struct, frozen=True):
    """A signal to a task."""

    task: str
    number: int


class Hold(msgspec.Struct, frozen=True):
    """What a host is held to from now on."""

    host: str
    condition: Condition


class Over(msgspec.Struct, frozen=True):
    """For the run's record, once it is undone. A kill is never over."""

    fault: Fault


Action = Began | Send | Hold | Over


class Schedule:
    def __init__(self, faults: Sequence[Fault], homes: Mapping[str, str], usual: Mapping[str, Condition]) -> None:
        self._homes, self._usual = homes, usual
        self._waiting = list(faults)
        self._active: list[tuple[Fault, float]] = []
        """Those under way in the order they began, each with the second it ends at."""
        self._frozen: set[str] = set()
        self._held = dict(usual)

    @classmethod
    def of(cls, plan: RunPlan) -> "Schedule":
        usual = {most.host: Condition(link_bits_s=most.link_bits_s, cpus=most.cpus) for most in plan.limits}
        return cls(plan.spec.fault, {place.task: place.host for place in plan.places}, usual)

    def due(self, update: int, seconds: float) -> list[Action]:
        """What to do now: the run has made so many updates, and the barrier opened so long ago."""
        begun = [fault for fault in self._waiting if _has_come(fault, update, seconds)]
        over = [fault for fault, until in self._active if until <= seconds]
        if not begun and not over:
            return []
        self._waiting = [fault for fault in self._waiting if fault not in begun]
        self._active = [(fault, until) for fault, until in self._active if until > seconds]
        # A fault that comes late lasts as long as it should.
        self._active += [(one, seconds + (one.for_s or inf)) for one in begun if one.kind != "kill"]
        kills = [Send(fault.target, signal.SIGKILL) for fault in begun if fault.kind == "kill"]
        return [*map(Began, begun), *kills, *self._differences(), *map(Over, over)]

    def end(self) -> list[Action]:
        """Undo what is under way; nothing begins any more."""
        over = [fault for fault, _ in self._active]
        self._waiting, self._active = [], []
        return [*self._differences(), *map(Over, over)]

    def _differences(self) -> list[Action]:
        frozen = {task for fault, _ in self._active if fault.kind == "freeze" for task in self._tasks_of(fault)}
        held = dict(self._usual)
        for fault, _ in self._active:
            if fault.host:
                held[fault.host] = _changed(held[fault.host], fault)
        found: list[Action] = [Send(task, signal.SIGCONT) for task in sorted(self._frozen - frozen)]
        found += [Send(task, signal.SIGSTOP) for task in sorted(frozen - self._frozen)]
        found += [Hold(host, condition) for host, condition in held.items() if condition != self._held[host]]
        self._frozen, self._held = frozen, held
        return found

    def _tasks_of(self, fault: Fault) -> list[str]:
        return [task for task, host in self._homes.items() if fault.target in (task, host)]


def _has_come(fault: Fault, update: int, seconds: float) -> bool:
    return update >= fault.at_step if fault.at_step is not None else seconds >= (fault.at_s or 0.0)


def _changed(before: Condition, fault: Fault) -> Condition:
    match fault.kind:
        case "cut":
            return msgspec.structs.replace(before, linked=False)
        case "limit":
            return msgspec.structs.replace(before, link_bits_s=fault.link_bits_s)
        case "slow":
            return msgspec.structs.replace(before, cpus=fault.cpus)
        case _:
            return before
