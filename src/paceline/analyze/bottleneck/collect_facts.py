"""Collects from a stored run the facts from which its bottleneck is found."""

from collections import Counter
from collections.abc import Mapping

import polars as pl

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.analyze.clocks import clock_uncertainty
from paceline.analyze.critical_path import critical_path
from paceline.analyze.machines import Machines
from paceline.analyze.phases import last_steps_of
from paceline.analyze.run_wait import spread_run_wait
from paceline.analyze.training import steps_before
from paceline.plan.limits import HostLimits
from paceline.plan.roles import SERVER
from paceline.present.numbers import percent
from paceline.recording.layout import OTHER, STEP_PHASE_NAMES
from paceline.store.events import AssignedEvent, FinishedEvent
from paceline.store.result import HostResult, Link, WorkerResult
from paceline.store.run import StoredRun

_CATEGORIES = {"forward": "compute", "backward": "compute", "optimizer": "compute", "exchange": "push"}
"""Phases of a user's script that count as another phase when the bottleneck is looked for."""


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
    step_s = _step_seconds(run)
    uses = _uses(spread_run_wait(run.samples), start_s, end_s)
    throttled = _throttled(run.samples, start_s, end_s)
    host_facts = _hosts(hosts, header.limits, machines, background_cores, throttled)
    threads = {event.task: event.threads for event in run.all(AssignedEvent)}
    scheduler_s, gc_s = _seconds_of(run, "schedule"), _seconds_of(run, "gc")
    return Facts(
        synchronous=header.strategy.synchronous,
        server_is=header.strategy.server_is,
        one_server=header.strategy.one_server,
        trains=header.trains,
        seconds=end_s - start_s,
        startup_s=start_s,
        total_s=total_s,
        workers=tuple(
            WorkerFacts(
                task=worker.task,
                host=worker.host,
                steps=worker.own_steps,
                phases=_phases(worker.phases, step_s.get(worker.task, 0.0)),
                detail=_detail(worker.phases),
                lines={line.phase: f"{percent(line.share)} in {line.where}" for line in reversed(worker.lines)},
                use=uses.get(worker.task, TaskUse()),
                threads=threads.get(worker.task, 1),
                scheduler_s=scheduler_s.get(worker.task, 0.0),
                gc_s=gc_s.get(worker.task, 0.0),
            )
            for worker in workers
        ),
        servers=tuple(_servers(run, uses, host_facts, start_s, end_s)),
        links=tuple(_links(hosts, run.samples, start_s, end_s)),
        hosts=host_facts,
        machine_cores=machines.total_cores if machines.shared else 0,
        background_cores=machines.total(background_cores),
        arithmetic_s=_arithmetic_s(run, threads),
        last_at_barrier=_last_at_barrier(run),
        coverage=_coverage(run),
    )


def _step_seconds(run: StoredRun) -> dict[str, float]:
    """The time of all untraced steps of each worker."""
    untraced = run.scan_steps().filter((pl.col("kind") == "step") & ~pl.col("traced"))
    return dict(run.collect(untraced.group_by("task").agg(pl.col("duration_s").sum())).iter_rows())


def _seconds_of(run: StoredRun, kind: str) -> dict[str, float]:
    """The time of all records of one kind, by task."""
    rows = run.scan_steps().filter(pl.col("kind") == kind)
    return dict(run.collect(rows.group_by("task").agg(pl.col("duration_s").sum())).iter_rows())


def _phases(phases: dict[str, float], step_s: float) -> Phases:
    """A worker's phases; the time of its steps that no phase covers becomes `other`."""
    known_s = sum(phases.get(name, 0.0) for name in STEP_PHASE_NAMES)
    merged: Counter[str] = Counter()
    for name, seconds in phases.items():
        merged[_CATEGORIES.get(name, name)] += seconds  # type: ignore[assignment]
    merged[OTHER] = max(0.0, step_s - known_s)  # type: ignore[assignment]
    return Phases(**merged)


def _detail(phases: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """For each phase that counts several phases of a user's script: their seconds."""
    detail: dict[str, dict[str, float]] = {}
    for name, seconds in phases.items():
        if category := _CATEGORIES.get(name):
            detail.setdefault(category, {})[name] = seconds
    return detail


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


def _throttled(samples: pl.DataFrame, start_s: float, end_s: float) -> dict[str, float]:
    """By host, the share of the periods of its CPU limit in which the limit stopped its tasks."""
    counted = samples.filter(pl.col("t_s").is_between(start_s, end_s)).drop_nulls("quota_periods").sort("t_s")
    growth = pl.col("quota_periods", "quota_throttled").last() - pl.col("quota_periods", "quota_throttled").first()
    rows = counted.group_by("host").agg(growth)
    return {host: throttled / periods for host, periods, throttled in rows.iter_rows() if periods > 0}


def _hosts(
    hosts: list[HostResult],
    limits: Mapping[str, HostLimits],
    machines: Machines,
    background_cores: Mapping[str, float],
    throttled: Mapping[str, float],
) -> tuple[HostFacts, ...]:
    return tuple(
        HostFacts(
            host=host.host,
            tasks=tuple(host.tasks),
            cpu_cores=host.cpu_cores_mean,
            cpus=limits[host.host].cpus if host.host in limits else None,
            cores=machines.cores(host.host),
            background_cores=background_cores.get(host.host, 0.0),
            throttled=throttled.get(host.host),
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
    served = run.scan_steps().filter((pl.col("kind") == "serve") & pl.col("t_s").is_between(start_s, end_s))
    busy_s = dict(run.collect(served.group_by("task").agg(pl.col("duration_s").sum())).iter_rows())
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


def _links(hosts: list[HostResult], samples: pl.DataFrame, start_s: float, end_s: float) -> list[LinkFacts]:
    """The links of all hosts whose capacity is known."""
    during_training = samples.filter(pl.col("t_s").is_between(start_s, end_s))
    return [
        LinkFacts(
            host=host.host,
            outbound_mb_s=host.external.tx_mb_s_mean,
            inbound_mb_s=host.external.rx_mb_s_mean,
            outbound_capacity_mb_s=host.link.tx_mb_s,
            inbound_capacity_mb_s=host.link.rx_mb_s,
            known_from=host.link.known_from,
            fuller_direction=fuller_direction(during_training.filter(pl.col("host") == host.host), host.link),
        )
        for host in hosts
        if host.link
    ]


def fuller_direction(samples: pl.DataFrame, link: Link) -> float:
    """Mean over time of the utilization of the fuller direction, each interval between two samples at most 1."""
    intervals = samples.sort("t_s").select(
        seconds=pl.col("t_s").diff(),
        outbound=pl.col("external_tx_bytes").cast(pl.Float64).diff() / (link.tx_mb_s * 1e6),
        inbound=pl.col("external_rx_bytes").cast(pl.Float64).diff() / (link.rx_mb_s * 1e6),
    )
    busy = intervals.drop_nulls().select(
        "seconds", busy_s=pl.min_horizontal(pl.max_horizontal("outbound", "inbound"), "seconds")
    )
    total_s = float(busy["seconds"].sum())
    return float(busy["busy_s"].sum()) / total_s if total_s > 0 else 0.0


def _arithmetic_s(run: StoredRun, threads: dict[str, int]) -> float | None:
    """Seconds that the arithmetic of a step takes at least, at the speed that each worker measured.

    It is the mean over all steps: workers on machines with fewer or slower cores need longer for theirs.
    """
    operations, before = run.header.operations_per_example, steps_before(run.header)
    speeds = [
        (event.operations_per_cpu_s * threads.get(event.task, 1), max(1, event.steps - before.get(event.task, 0)))
        for event in run.all(FinishedEvent)
        if event.operations_per_cpu_s
    ]
    if not operations or not speeds:
        return None
    steps = sum(steps for _, steps in speeds)
    return float(sum(steps * operations * run.header.spec.batch / speed for speed, steps in speeds) / steps)


def _last_at_barrier(run: StoredRun) -> dict[str, float]:
    """Share of the steps in which each worker was the last at the barrier, of those in which the clocks show who was;
    empty without a barrier or its records."""
    barrier = run.header.strategy.barrier_phase
    if not run.header.strategy.synchronous or barrier is None:
        return {}
    last_steps = run.collect(last_steps_of(run.scan_steps()))
    complete = run.scan_steps().join(last_steps.lazy(), on="task").filter(pl.col("step") <= pl.col("last"))
    waits = complete.filter((pl.col("kind") == barrier) & ~pl.col("traced"))
    workers = run.collect(waits.select(pl.col("task").n_unique())).item()
    uncertainty = clock_uncertainty(run)
    counts: Counter[str] = Counter()
    for part in run.step_parts():
        path = critical_path(
            part,
            barrier_phase=barrier,
            workers=workers,
            last_steps=last_steps,
            last_wait=run.header.strategy.waits_for_task,
            uncertainty=uncertainty,
        )
        counts.update(dict(path.group_by("task").len().iter_rows()))
    if not counts:
        return {}
    return {task: counts[task] / counts.total() for task in run.header.worker_hosts}


def _coverage(run: StoredRun) -> float:
    """Share of the time between the workers' first and last steps that the records cover."""
    recorded = run.scan_steps().filter(pl.col("kind").is_in(["step", "eval", "checkpoint"]) & ~pl.col("final"))
    spans = run.collect(
        recorded.group_by("task").agg(
            covered=pl.col("duration_s").sum(),
            span=(pl.col("t_s") + pl.col("duration_s")).max() - pl.col("t_s").min(),
        )
    )
    span = float(spans["span"].sum())
    return min(1.0, float(spans["covered"].sum()) / span) if span > 0 else 0.0
