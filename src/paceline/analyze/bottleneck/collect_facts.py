"""Collects from a stored run the facts from which its bottleneck is found."""

from collections.abc import Mapping

import polars as pl

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.critical_path import critical_path
from paceline.analyze.machines import Machines
from paceline.plan.limits import HostLimits
from paceline.plan.roles import SERVER
from paceline.store.events import AssignedEvent, FinishedEvent
from paceline.store.header import RunHeader
from paceline.store.result import HostResult, WorkerResult
from paceline.store.run import StoredRun

_STEP_PHASES = ("data", "pull", "compute", "push", "wait")
"""The phases that are part of a step; evaluation and checkpoints come between steps."""


def collect_facts(
    run: StoredRun,
    workers: list[WorkerResult],
    hosts: list[HostResult],
    *,
    start_s: float,
    end_s: float,
    total_s: float,
    machines: Machines,
    background_cores: Mapping[str, float],
) -> Facts:
    """The facts of a run whose training took place from `start_s` to `end_s` on the run's clock."""
    header = run.header
    steps = run.steps
    uses = _uses(run.samples, start_s, end_s)
    host_facts = _hosts(hosts, header.limits, machines, background_cores)
    threads = {event.task: event.threads for event in run.all(AssignedEvent)}
    return Facts(
        synchronous=header.strategy.synchronous,
        trains=header.trains,
        seconds=end_s - start_s,
        startup_s=start_s,
        total_s=total_s,
        workers=tuple(
            WorkerFacts(
                task=worker.task,
                host=worker.host,
                steps=worker.steps,
                phases=_phases(worker.phases, steps.filter(pl.col("task") == worker.task)),
                use=uses.get(worker.task, TaskUse()),
                threads=threads.get(worker.task, 1),
            )
            for worker in workers
        ),
        servers=tuple(_servers(run, uses, host_facts, start_s, end_s)),
        links=tuple(_links(hosts)),
        hosts=host_facts,
        machine_cores=machines.total_cores if machines.shared else 0,
        background_cores=machines.total(background_cores),
        arithmetic_s=_arithmetic_s(run, threads),
        last_at_barrier=_last_at_barrier(steps, header),
        coverage=_coverage(steps),
    )


def _phases(phases: dict[str, float], steps: pl.DataFrame) -> Phases:
    """A worker's phases; the time of its steps that no phase covers becomes `other`."""
    total_s = steps.filter((pl.col("kind") == "step") & ~pl.col("traced"))["duration_s"].sum()
    known_s = sum(phases.get(name, 0.0) for name in _STEP_PHASES)
    return Phases(**phases, other=max(0.0, float(total_s) - known_s))


def _uses(samples: pl.DataFrame, start_s: float, end_s: float) -> dict[str, TaskUse]:
    """The CPU use of each task, from its first and its last sample of the training."""
    during_training = samples.filter(pl.col("t_s").is_between(start_s, end_s)).sort("t_s")
    rows = during_training.select("t_s", "tasks").explode("tasks").drop_nulls("tasks").unnest("tasks")
    counters = pl.col("t_s", "cpu_s", "run_wait_s")
    ends = rows.group_by("task").agg(counters.first().name.suffix("_first"), counters.last().name.suffix("_last"))
    uses = {}
    for row in ends.iter_rows(named=True):
        seconds = row["t_s_last"] - row["t_s_first"]
        if seconds > 0:
            waited_s = (row["run_wait_s_last"] or 0.0) - (row["run_wait_s_first"] or 0.0)
            uses[row["task"]] = TaskUse(
                cpu_cores=(row["cpu_s_last"] - row["cpu_s_first"]) / seconds, run_wait=max(0.0, waited_s) / seconds
            )
    return uses


def _hosts(
    hosts: list[HostResult], limits: Mapping[str, HostLimits], machines: Machines, background_cores: Mapping[str, float]
) -> tuple[HostFacts, ...]:
    return tuple(
        HostFacts(
            host=host.host,
            tasks=tuple(host.tasks),
            cpu_cores=host.cpu_cores_mean,
            cpus=limits[host.host].cpus if host.host in limits else None,
            cores=machines.cores(host.host),
            background_cores=background_cores.get(host.host, 0.0),
        )
        for host in hosts
    )


def _servers(
    run: StoredRun,
    uses: dict[str, TaskUse],
    hosts: tuple[HostFacts, ...],
    start_s: float,
    end_s: float,
) -> list[ServerFacts]:
    shard_sizes = next((event.shard_sizes for event in run.all(FinishedEvent) if event.shard_sizes), {})
    served = run.steps.filter((pl.col("kind") == "serve") & pl.col("t_s").is_between(start_s, end_s))
    busy_s = dict(served.group_by("task").agg(pl.col("duration_s").sum()).iter_rows())
    by_host = {host.host: host for host in hosts}
    servers = []
    for place in run.header.places:
        if place.role != SERVER:
            continue
        task, host = place.task, place.host
        use = uses.get(task, TaskUse())
        # A server with a CPU limit can be saturated while it handles no request, because its CPU quota is used up.
        limit, cores = by_host[host].cpus, by_host[host].cores or 1
        share = use.cpu_cores / min(limit or cores, cores) if limit or task not in busy_s else 0.0
        if task in busy_s and end_s > start_s:
            share = max(share, busy_s[task] / (end_s - start_s))
        servers.append(
            ServerFacts(task=task, host=host, busy=min(1.0, share), use=use, parameter_sizes=shard_sizes.get(task, {}))
        )
    return servers


def _links(hosts: list[HostResult]) -> list[LinkFacts]:
    """Both directions of every host's link whose capacity is known."""
    return [
        LinkFacts(
            host=host.host, direction=direction, mb_s=rate, capacity_mb_s=capacity, known_from=host.link.known_from
        )
        for host in hosts
        if host.link
        for direction, capacity, rate in (
            ("outbound", host.link.tx_mb_s, host.external.tx_mb_s_mean),
            ("inbound", host.link.rx_mb_s, host.external.rx_mb_s_mean),
        )
    ]


def _arithmetic_s(run: StoredRun, threads: dict[str, int]) -> float | None:
    """Seconds that the arithmetic of one step takes at least, at the speed that the workers measured."""
    operations = run.header.operations_per_example
    speeds = [
        event.operations_per_cpu_s * threads.get(event.task, 1)
        for event in run.all(FinishedEvent)
        if event.operations_per_cpu_s
    ]
    if not operations or not speeds:
        return None
    return float(operations * run.header.spec.batch / (sum(speeds) / len(speeds)))


def _last_at_barrier(steps: pl.DataFrame, header: RunHeader) -> dict[str, float]:
    """Share of the steps in which each worker was the last at the barrier; empty without a barrier or its records."""
    barrier = header.strategy.barrier_phase
    if not header.strategy.synchronous or barrier is None:
        return {}
    path = critical_path(steps, barrier_phase=barrier)
    if not len(path):
        return {}
    counts = dict(path.group_by("task").len().iter_rows())
    return {task: counts.get(task, 0) / len(path) for task in header.worker_hosts}


def _coverage(steps: pl.DataFrame) -> float:
    """Share of the time between the workers' first and last steps that the records cover."""
    recorded = steps.filter(pl.col("kind").is_in(["step", "eval", "checkpoint"]) & ~pl.col("final"))
    spans = recorded.group_by("task").agg(
        covered=pl.col("duration_s").sum(),
        span=(pl.col("t_s") + pl.col("duration_s")).max() - pl.col("t_s").min(),
    )
    span = float(spans["span"].sum())
    return min(1.0, float(spans["covered"].sum()) / span) if span > 0 else 0.0
