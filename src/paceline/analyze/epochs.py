"""How many examples an epoch of a stored run has."""

from paceline.store.run import StoredRun
from paceline.workloads.registry import WORKLOADS


def examples_per_epoch(run: StoredRun) -> int | None:
    """Training examples of all workers in one epoch; None for a user's workload, which may not be here any more."""
    header = run.header
    sizes = WORKLOADS.get(header.spec.workload)
    if not header.trains or sizes is None or header.size not in sizes:
        return None
    if header.spec.steps_per_epoch:
        return header.spec.steps_per_epoch * header.spec.batch * len(header.worker_hosts)
    return header.spec.examples or sizes[header.size].train_examples
