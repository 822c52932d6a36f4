"""Decides when injected faults begin and end, and which actions that takes. Pure, so tests can try every order.

The active faults define the wanted state: which tasks are stopped and which condition each host has. The actions are
the difference to the current state, so faults may overlap and end in any order.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from math import inf

import msgspec

from paceline.hosts.base import Condition
from paceline.plan.place import RunPlan
from paceline.spec.fault import Fault, not_injected


class FaultBegan(msgspec.Struct, frozen=True):
    """To be stored with the run before the fault takes effect."""

    fault: Fault


class SendSignal(msgspec.Struct, frozen=True):
    """Send a signal to a task."""

    task: str
    number: int


class SetCondition(msgspec.Struct, frozen=True):
    """Change the link and CPU limits of a host."""

    host: str
    condition: Condition


class FaultEnded(msgspec.Struct, frozen=True):
    """To be stored with the run after the fault was undone. A kill never ends."""

    fault: Fault


Action = FaultBegan | SendSignal | SetCondition | FaultEnded


class FaultSchedule:
    def __init__(self, faults: Sequence[Fault], task_hosts: Mapping[str, str], normal: Mapping[str, Condition]) -> None:
        self._task_hosts, self._normal = task_hosts, normal
        self._pending = list(faults)
        self._active: list[tuple[Fault, float]] = []
        """Active faults in the order they began, each with the second at which it ends."""
        self._frozen: set[str] = set()
        self._conditions = dict(normal)

    @classmethod
    def of(cls, plan: RunPlan, injected_before: Iterable[str] = ()) -> "FaultSchedule":
        """The faults of a run, without those that were injected in the runs that it continues."""
        normal = {limits.host: Condition(link_bits_s=limits.link_bits_s, cpus=limits.cpus) for limits in plan.limits}
        faults = not_injected(plan.spec.fault, injected_before)
        return cls(faults, {place.task: place.host for place in plan.places}, normal)

    def due(self, update: int, seconds: float) -> list[Action]:
        """Actions that are due after `update` updates and `seconds` seconds of training."""
        beginning = [fault for fault in self._pending if _is_due(fault, update, seconds)]
        ending = [fault for fault, until in self._active if until <= seconds]
        if not beginning and not ending:
            return []
        self._pending = [fault for fault in self._pending if fault not in beginning]
        self._active = [(fault, until) for fault, until in self._active if until > seconds]
        # A fault that begins late still lasts for its full duration.
        self._active += [(fault, seconds + (fault.for_s or inf)) for fault in beginning if fault.kind != "kill"]
        kills = [SendSignal(fault.target, signal.SIGKILL) for fault in beginning if fault.kind == "kill"]
        return [*map(FaultBegan, beginning), *kills, *self._differences(), *map(FaultEnded, ending)]

    def end(self) -> list[Action]:
        """Undo all active faults; no further fault begins."""
        ending = [fault for fault, _ in self._active]
        self._pending, self._active = [], []
        return [*self._differences(), *map(FaultEnded, ending)]

    def _differences(self) -> list[Action]:
        frozen = {task for fault, _ in self._active if fault.kind == "freeze" for task in self._tasks_of(fault)}
        conditions = dict(self._normal)
        for fault, _ in self._active:
            if fault.host:
                conditions[fault.host] = _apply_fault(conditions[fault.host], fault)
        actions: list[Action] = [SendSignal(task, signal.SIGCONT) for task in sorted(self._frozen - frozen)]
        actions += [SendSignal(task, signal.SIGSTOP) for task in sorted(frozen - self._frozen)]
        actions += [
            SetCondition(host, condition)
            for host, condition in conditions.items()
            if condition != self._conditions[host]
        ]
        self._frozen, self._conditions = frozen, conditions
        return actions

    def _tasks_of(self, fault: Fault) -> list[str]:
        return [task for task, host in self._task_hosts.items() if fault.target in (task, host)]


def _is_due(fault: Fault, update: int, seconds: float) -> bool:
    return update >= fault.at_step if fault.at_step is not None else seconds >= (fault.at_s or 0.0)


def _apply_fault(before: Condition, fault: Fault) -> Condition:
    match fault.kind:
        case "cut":
            return msgspec.structs.replace(before, linked=False)
        case "limit":
            return msgspec.structs.replace(before, link_bits_s=fault.link_bits_s)
        case "slow":
            return msgspec.structs.replace(before, cpus=fault.cpus)
        case _:
            return before
