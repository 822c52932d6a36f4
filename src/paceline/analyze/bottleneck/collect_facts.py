"""Stored run -> facts."""

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

_IN_STEPS = ("data", "pull", "compute", "push", "wait")


def collect_facts(
    run: StoredRun,
    workers: list[WorkerResult],
    hosts: list[HostResult],
    *,
    start_s: float,
    end_s: float,
    total_s: float,
    machines: Machines,
    other_cores: Mapping[str, float],
) -> Facts:
    header = run.header
    steps = run.steps
    uses = _uses(run.samples, start_s, end_s)
    host_facts = _hosts(hosts, header.limits, machines, other_cores)
    threads = {event.task: event.threads for event in run.all(AssignedEvent)}
    made = {worker.task: worker for worker in workers}
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
                phases=_with_other(worker.phases, steps.filter(pl.col("task") == worker.task)),
                use=uses.get(worker.task, TaskUse()),
                threads=threads.get(worker.task, 1),
            )
            for worker in made.values()
        ),
        servers=tuple(_servers(run, uses, host_facts, start_s, end_s)),
        links=tuple(_links(hosts)),
        hosts=host_facts,
        machine_cores=machines.total_cores if machines.shared else 0,
        other_cores=machines.total(other_cores),
        arithmetic_s=_arithmetic_s(run, threads),
        last=_last(steps, header),
        coverage=_coverage(steps),
    )


def _with_other(phases: dict[str, float], steps: pl.DataFrame) -> Phases:
    """A worker's phases, and what its steps took beside them."""
    whole = steps.filter((pl.col("kind") == "step") & ~pl.col("traced"))["duration_s"].sum()
    known = sum(phases.get(name, 0.0) for name in _IN_STEPS)
    return Phases(**phases, other=max(0.0, float(whole) - known))


def _uses(samples: pl.DataFrame, start_s: float, end_s: float) -> dict[str, TaskUse]:
    """What each task used of the cores, and lacked of them."""
    inside = samples.filter(pl.col("t_s").is_between(start_s, end_s)).sort("t_s")
    rows = inside.select("t_s", "tasks").explode("tasks").drop_nulls("tasks").unnest("tasks")
    first, last = (getattr(pl.col("t_s", "cpu_s", "run_wait_s"), end)() for end in ("first", "last"))
    ends = rows.group_by("task").agg(first.name.suffix("_a"), last.name.suffix("_b"))
    found = {}
    for row in ends.iter_rows(named=True):
        seconds = row["t_s_b"] - row["t_s_a"]
        if seconds > 0:
            waited = (row["run_wait_s_b"] or 0.0) - (row["run_wait_s_a"] or 0.0)
            found[row["task"]] = TaskUse(
                cpu_cores=(row["cpu_s_b"] - row["cpu_s_a"]) / seconds, run_wait=max(0.0, waited) / seconds
            )
    return found


def _hosts(
    hosts: list[HostResult], limits: Mapping[str, HostLimits], machines: Machines, other_cores: Mapping[str, float]
) -> tuple[HostFacts, ...]:
    return tuple(
        HostFacts(
            host=host.host,
            tasks=tuple(host.tasks),
            cpu_cores=host.cpu_cores_mean,
            cpus=limits[host.host].cpus if host.host in limits else None,
            cores=machines.cores(host.host),
            other_cores=other_cores.get(host.host, 0.0),
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
    shards = next((event.shard_sizes for event in run.all(FinishedEvent) if event.shard_sizes), {})
    served = run.steps.filter((pl.col("kind") == "serve") & pl.col("t_s").is_between(start_s, end_s))
    busy = dict(served.group_by("task").agg(pl.col("duration_s").sum()).iter_rows())
    by_host = {host.host: host for host in hosts}
    found = []
    for place in run.header.places:
        if place.role != SERVER:
            continue
        task, host = place.task, place.host
        use = uses.get(task, TaskUse())
        # A server held to a share of a core may be full without being at work: its share is used up.
        held, cores = by_host[host].cpus, by_host[host].cores or 1
        share = use.cpu_cores / min(held or cores, cores) if held or task not in busy else 0.0
        if task in busy and end_s > start_s:
            share = max(share, busy[task] / (end_s - start_s))
        found.append(
            ServerFacts(task=task, host=host, busy=min(1.0, share), use=use, holds=shards.get(task, {}))
        )  # fmt: skip
    return found


def _links(hosts: list[HostResult]) -> list[LinkFacts]:
    """Both ways of every host's link whose capacity is known."""
    return [
        LinkFacts(host=host.host, way=way, mb_s=rate, capacity_mb_s=capacity, known_from=host.link.known_from)
        for host in hosts
        if host.link
        for way, capacity, rate in (
            ("out of", host.link.tx_mb_s, host.external.tx_mb_s_mean),
            ("into", host.link.rx_mb_s, host.external.rx_mb_s_mean),
        )
    ]


def _arithmetic_s(run: StoredRun, threads: dict[str, int]) -> float | None:
    operations = run.header.operations_per_example
    speeds = [
        event.operations_per_cpu_s * threads.get(event.task, 1)
        for event in run.all(FinishedEvent)
        if event.operations_per_cpu_s
    ]
    if not operations or not speeds:
        return None
    return float(operations * run.header.spec.batch / (sum(speeds) / len(speeds)))


def _last(steps: pl.DataFrame, header: RunHeader) -> dict[str, float]:
    barrier = header.strategy.barrier_phase
    if not header.strategy.synchronous or barrier is None:
        return {}
    path = critical_path(steps, barrier_phase=barrier)
    if not len(path):
        return {}
    counts = dict(path.group_by("task").len().iter_rows())
    return {task: counts.get(task, 0) / len(path) for task in header.worker_hosts}


def _coverage(steps: pl.DataFrame) -> float:
    """Of the time between workers' first and last steps, what steps and what comes between them take."""
    known = steps.filter(pl.col("kind").is_in(["step", "eval", "checkpoint"]) & ~pl.col("final"))
    spans = known.group_by("task").agg(
        covered=pl.col("duration_s").sum(),
        span=(pl.col("t_s") + pl.col("duration_s")).max() - pl.col("t_s").min(),
    )
    span = float(spans["span"].sum())
    return min(1.0, float(spans["covered"].sum()) / span) if span > 0 else 0.0
