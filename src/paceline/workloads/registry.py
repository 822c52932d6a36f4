"""All built-in workloads by name."""

from paceline.workloads import logreg
from paceline.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {module.WORKLOAD.name: module.WORKLOAD for module in (logreg,)}
