"""How long agents and tasks may take to start: longer if many tasks share a core. Pure."""

from collections import Counter
from collections.abc import Mapping
from math import inf

from paceline import units
from paceline.plan.place import RunPlan

STARTUP_DEADLINE_S = 180.0
"""The deadline of a run with few tasks for each core."""
STARTUP_S_PER_TASK = 10.0
"""Added for each task that shares a core. A task that loads a framework needs 2 to 8 seconds of CPU time."""

SCRIPT_STARTUP_S = 60.0
"""How much longer the tasks of a script may take to start than the script may take to its first step: the watchdog,
which collects the stacks of a script that hangs, is to notice first."""


def slowness(plan: RunPlan) -> float:
    """By how much a task may take longer because its host has only a fraction of a core; 1 without such a host."""
    return 1 / min(1.0, *(limits.cpus or 1.0 for limits in plan.limits))


def startup_deadline_s(plan: RunPlan, cores: Mapping[str, int]) -> float:
    """The deadline in seconds. `cores`: those of each host's machine; a host that is missing is assumed to have one."""
    deadline_s = (STARTUP_DEADLINE_S + STARTUP_S_PER_TASK * _tasks_per_core(plan, cores)) * slowness(plan)
    # A user's script may prepare data before its first step for as long as the user allows.
    return max(deadline_s, stall_limit_s(plan) + SCRIPT_STARTUP_S) if plan.is_script else deadline_s


def stall_limit_s(plan: RunPlan) -> float:
    """How long a user's script may make no step."""
    return units.time_limit(plan.spec.stall_limit)


def _tasks_per_core(plan: RunPlan, cores: Mapping[str, int]) -> float:
    """The number of tasks for each core, where it is highest. Less than one core counts as one: see `slowness`."""
    tasks = Counter(place.host for place in plan.places)
    loads = [
        tasks[limits.host] / max(1.0, min(limits.cpus or inf, cores.get(limits.host, 1))) for limits in plan.limits
    ]
    if plan.shares_one_machine:
        loads.append(len(plan.places) / max(cores.values(), default=1))
    return max(loads)
