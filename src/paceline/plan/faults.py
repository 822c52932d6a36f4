"""Check that each fault to inject has an existing target and begins before the run ends."""

from collections.abc import Sequence

from paceline.errors import PlanError, unknown
from paceline.plan.layout import TaskPlace
from paceline.spec.fault import Fault
from paceline.spec.run_options import RunSpec


def check_faults(spec: RunSpec, places: Sequence[TaskPlace], update_limit: int | None) -> None:
    """Raise PlanError if the target of a fault does not exist, or if the run ends before the fault begins."""
    tasks, hosts = {place.task for place in places}, {place.host for place in places}
    seconds = min((rule.value for rule in spec.stop if rule.kind == "seconds"), default=None)
    for fault in spec.fault:
        if fault.task and fault.task not in tasks:
            raise PlanError(f"fault '{fault}': {unknown('task', fault.task, tasks)}")
        if fault.host and fault.host not in hosts:
            raise PlanError(f"fault '{fault}': {unknown('host', fault.host, hosts)}")
        if fault.at_step is not None and update_limit is not None and fault.at_step >= update_limit:
            raise _too_late(fault, f"{update_limit} updates")
        if fault.at_s is not None and seconds is not None and fault.at_s >= seconds:
            raise _too_late(fault, f"{seconds:g} s")


def _too_late(fault: Fault, end: str) -> PlanError:
    return PlanError(
        f"fault '{fault}' would never begin: the run ends after {end}; choose an earlier start or a later stop rule"
    )
