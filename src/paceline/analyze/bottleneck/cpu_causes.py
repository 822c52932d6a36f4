"""Bottleneck causes that concern CPU cores: computation, and tasks that wait for a core."""

from collections.abc import Iterator, Sequence
from statistics import mean

from paceline.analyze.bottleneck.facts import Facts, HostFacts, ServerFacts, WorkerFacts
from paceline.analyze.bottleneck.suspect import Suspect
from paceline.analyze.bottleneck.time_account import TimeAccount, compute_s, is_throttled
from paceline.present.numbers import count, first_items, percent


def compute(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    worker = max(facts.workers, key=lambda worker: compute_s(facts, worker))
    cores = ", ".join(f"{worker.task} {worker.use.cpu_cores:.2f}/{worker.threads}" for worker in facts.workers[:4])
    yield Suspect(
        cause="compute",
        where=f"{worker.task} on {worker.host}",
        share=account.compute,
        evidence=(
            f"cores used / threads: {cores}",
            *cpu_limit_evidence(facts, worker.host),
            *_throttled_evidence(account),
        ),
        reason="cpu_limit" if is_throttled(facts.host(worker.host)) else "",
    )


def _throttled_evidence(account: TimeAccount) -> list[str]:
    if account.throttled < 0.01:
        return []
    part = percent(account.throttled / account.compute)
    return [f"of the compute time, {part} is other work that the CPU limit slowed down"]


def contention(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    saturated = [host for host in facts.hosts if len(host.tasks) > 1 and host.cpu_limit_reached]
    all_tasks: list[WorkerFacts | ServerFacts] = [*facts.workers, *facts.servers]
    tasks, background = all_tasks, facts.background_cores
    host = max(saturated, key=lambda host: len(host.tasks), default=None)
    if host:
        where = f"{host.host} ({', '.join(host.tasks)})"
        (use,) = cpu_limit_evidence(facts, host.host)
        cores = host.cpus or 1.0
    elif facts.machine_cores:
        where = f"the machine's {count(facts.machine_cores, 'core')}"
        use = _core_use(tasks, background)
        cores = facts.machine_cores - background
    else:
        # Every host is a machine of its own: only what runs there competes for its cores.
        host = _host_with_longest_wait(facts, all_tasks)
        tasks, background = [task for task in all_tasks if task.host == host.host], host.background_cores
        where = f"{host.host} ({count(host.cores, 'core')})" if host.cores else host.host
        use = _core_use(tasks, background)
        cores = host.cores - background
    waits = first_items([f"{task.task} {task.use.run_wait:.2f}" for task in tasks])
    used_cores = sum(task.use.cpu_cores for task in tasks)
    yield Suspect(
        cause="contention",
        where=where,
        share=account.waiting_for_core,
        evidence=(f"threads that waited for a CPU core, on average: {waits}", use),
        threads=most_threads(facts),
        reason="background_load" if background >= max(0.5, used_cores) else "",
        fitting_workers=_fitting_workers([one for one in facts.workers if not host or one.host == host.host], cores),
        host=host.host if host else "",
    )


def _fitting_workers(workers: list[WorkerFacts], cores: float) -> dict[str, int]:
    """How many of the workers of each host these cores can carry, without changing the order of the workers.

    A worker needs the cores that it used and those that it waited for, and at least one.
    """
    needed = mean(worker.use.cpu_cores + worker.use.run_wait for worker in workers) if workers else 1.0
    fitting = max(1, round(cores / max(1.0, needed)))
    kept = [worker.host for worker in workers[:fitting]]
    return {worker.host: kept.count(worker.host) for worker in workers}


def _host_with_longest_wait(facts: Facts, tasks: Sequence[WorkerFacts | ServerFacts]) -> HostFacts:
    """The host of the task that waited longest for a core, among hosts whose cores were used up if there are any."""
    full = [task for task in tasks if facts.machine_is_saturated(facts.host(task.host))]
    return facts.host(max(full or tasks, key=lambda task: task.use.waiting_for_core).host)


def _core_use(tasks: Sequence[WorkerFacts | ServerFacts], background_cores: float) -> str:
    used = f"{count(len(tasks), 'task')} used {sum(task.use.cpu_cores for task in tasks):.2f} cores"
    return used + (f"; background load: {background_cores:.2f} cores" if background_cores >= 0.1 else "")


def most_threads(facts: Facts) -> int:
    return max(worker.threads for worker in facts.workers)


def cpu_limit_evidence(facts: Facts, host_name: str) -> list[str]:
    """A sentence about the use of the host's CPU limit; no sentence if the host has no limit."""
    host = facts.host(host_name)
    if host.cpus is not None:
        return [f"the tasks of {host_name} used {host.cpu_cores:.2f} of the {host.cpus:g} cores allowed"]
    # The limit is not one of the run's own: it belongs to a fault, or to a container.
    if host.throttled is not None and host.cpu_limit_reached:
        return [f"a CPU limit stopped the tasks of {host_name} in {percent(host.throttled)} of its periods"]
    return []
