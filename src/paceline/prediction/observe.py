"""Reduces a stored run to what predictions are made from: CPU seconds and bytes per step, and the measured rates."""

from collections.abc import Mapping
from statistics import fmean

import msgspec
import polars as pl

from paceline.analyze.load import load_result
from paceline.analyze.machines import machines_of
from paceline.analyze.repeats import exclusion_reason
from paceline.analyze.training import END_S, Training, step_rows
from paceline.errors import PredictError
from paceline.plan.limits import HostLimits
from paceline.plan.roles import SERVER, WORKER
from paceline.plan.strategy_options import strategy_options
from paceline.prediction.cluster import Setup
from paceline.prediction.costs import HEADER_BYTES
from paceline.spec.run_options import RunSpec
from paceline.spec.training import read_staleness_bound
from paceline.store.events import FinishedEvent
from paceline.store.header import RunHeader
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies

MIN_SECONDS = 2.0
"""Runs that trained for a shorter time are not used: their CPU times are too coarse."""
MIN_STEPS = 10
_LITTLE = 0.2
"""Headers, repeated packets and small messages are below this part of the bytes of an exchange."""
THIS_MACHINE = "machine"
"""The machine of all hosts, if they share one."""


class TaskCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one task used, averaged over the steady part of the run."""

    task: str
    role: str
    host: str
    cpu_s: float
    """CPU seconds in all."""
    steps: float
    """Steps of the worker; of a server, steps of all workers."""
    threads: int = 1

    @property
    def per_step_s(self) -> float:
        return self.cpu_s / self.steps


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run, reduced to what predictions need."""

    run: str
    directory: str
    workload: str
    """With its variant."""
    data: str
    engine: str
    hosts: str
    """The option, e.g. `netns` or `ssh:hosts.toml`."""
    transport: str | None
    setup: Setup
    updates_per_s: float
    examples_per_s: float
    seconds: float
    updates: int
    tasks: tuple[TaskCost, ...]
    sent_bytes: float
    """Bytes that a worker sends in a step, and receives."""
    received_bytes: float
    window_s: float
    """Seconds in which the CPU times of the tasks were counted."""
    background_cores: float
    step_noise: float | None
    """Spread of the computing time of a worker's steps, on the log scale; None if it is not known."""
    compute_seconds: float | None
    """Seconds of the compute phase of a step, with throttling and waiting for a core; None if it is not known."""

    repeated: float = 0.0
    """What passes the network besides these bytes, relative to them."""

    packets: float | None = None
    """Packets of all hosts per step of a worker; None if they are not known."""

    @property
    def traced(self) -> bool:
        """Whether the seconds of the compute phase are known only from traces of a few steps."""
        return self.step_noise is None

    @property
    def ring_bytes(self) -> float:
        """Bytes of all gradients or parameters; a ring sends most of them twice in an exchange."""
        workers, sent = self.setup.workers, self.sent_bytes * self.setup.sync_every
        return sent * workers / (2 * (workers - 1)) if workers > 1 else sent

    @property
    def threads(self) -> int:
        """Compute threads of a worker."""
        return max(task.threads for task in self.tasks)

    @property
    def limited(self) -> bool:
        """Whether a host of a worker has a CPU limit."""
        workers = {task.host for task in self.tasks if task.role == WORKER}
        return any(limits.cpus is not None for host, limits in self.setup.limits.items() if host in workers)


def observe(paths: RunPaths) -> Observed:
    """The observation of a stored run; PredictError if it cannot be used, with the reason."""
    result, stored = load_result(paths), StoredRun(paths)
    header = stored.header
    if reason := why_not_usable(result, header):
        raise PredictError(f"run {paths.id} cannot be used to predict others: {reason}")
    training = Training(stored)
    tasks, window_s = _task_costs(stored, training)
    if not tasks:
        raise PredictError(
            f"run {paths.id} cannot be used to predict others: it has no samples of its tasks; run it again with "
            f"--stop seconds={2 * MIN_SECONDS:g}"
        )
    setup = setup_of(header, result, stored)
    sent, received = _bytes(result)
    noise, compute_s = _compute_times(stored)
    return Observed(
        run=paths.id,
        directory=str(paths.directory),
        workload=result.title,
        data=result.data,
        engine=result.engine,
        hosts=header.spec.hosts,
        transport=result.transport,
        setup=setup,
        updates_per_s=result.updates_per_s,
        examples_per_s=result.examples_per_s,
        seconds=result.train_s,
        updates=result.updates,
        tasks=tuple(tasks),
        sent_bytes=sent,
        received_bytes=received,
        repeated=repeated_part(result, setup, sent + received),
        packets=_packets(result),
        window_s=window_s,
        background_cores=result.other_cores_mean,
        step_noise=noise,
        compute_seconds=compute_s or _traced_compute_s(result),
    )


def why_not_usable(result: Result, header: RunHeader) -> str:
    """Why a run says nothing about others; empty if it does."""
    if reason := exclusion_reason(result):
        return reason
    if not header.trains or result.is_script:
        return "it does not train a workload of Paceline"
    if header.spec.fault:
        return "faults were injected"
    if header.spec.compress:
        return f"what it exchanged was compressed (compress={header.spec.compress})"
    if not header.spec.record:
        return "it was not recorded (record=false)"
    steps = min((worker.own_steps for worker in result.workers), default=0)
    if result.train_s < MIN_SECONDS or steps < MIN_STEPS:
        return (
            f"it is too short ({steps} steps in {result.train_s:.1f} s): run it again with --stop seconds="
            f"{2 * MIN_SECONDS:g}, at least {MIN_STEPS} steps and {MIN_SECONDS:g} s are needed"
        )
    return ""


def setup_of(header: RunHeader, result: Result, stored: StoredRun) -> Setup:
    """The configuration of a stored run as the simulation needs it."""
    machines, installed = machines_of(stored), strategies().get(header.strategy.name)
    hosts = list(dict.fromkeys(place.host for place in header.places))
    machine_of = {host: THIS_MACHINE if machines.shared else host for host in hosts}
    cores = {machine_of[host]: float(machines.cores(host) or 1) for host in hosts}
    return Setup(
        # The protocol is that of the installed strategy: the run may be older than the protocol.
        strategy=msgspec.structs.replace(header.strategy, protocol=installed.protocol if installed else None),
        places=header.places,
        batch=header.spec.batch,
        limits=_limits(header, result),
        machine_cores=cores,
        machine_of=machine_of,
        backup=header.spec.backup,
        sync_every=sync_every(header.spec, header.strategy),
        staleness_bound=staleness_bound(header.spec, header.strategy),
        background_cores={
            machine_of[host]: load for host in hosts if (load := result.other_cores_by_host.get(host, 0.0)) > 0.05
        },
        shares=_shares(stored),
    )


def sync_every(spec: RunSpec, strategy: Strategy) -> int:
    """Steps between two exchanges of a worker."""
    return int(strategy_options(spec, strategy).get("sync_every", 1))


def staleness_bound(spec: RunSpec, strategy: Strategy) -> int | None:
    """How many steps a worker may be ahead of the slowest; None if any number."""
    return read_staleness_bound(str(strategy_options(spec, strategy).get("staleness_bound", "inf")))


def _limits(header: RunHeader, result: Result) -> dict[str, HostLimits]:
    """The limits of each host; links without a limit have the rate that was measured, if it was."""
    found = dict(header.limits)
    for host in result.hosts:
        limits = found.get(host.host) or HostLimits(host=host.host)
        if limits.link_bits_s is None and host.link:
            rate = round(min(host.link.tx_mb_s, host.link.rx_mb_s) * 8e6)
            latency = [pair.rtt_min_ms for pair in result.links if pair.sender == host.host and pair.rtt_min_ms]
            limits = msgspec.structs.replace(
                limits, link_bits_s=rate or None, latency_s=limits.latency_s or (min(latency, default=0.0) / 2e3)
            )
        found[host.host] = limits
    return found


def _shares(stored: StoredRun) -> tuple[float, ...]:
    """The part of the parameters on each server."""
    sizes = next((event.shard_sizes for event in stored.all(FinishedEvent) if event.shard_sizes), {})
    totals = [float(sum(parameters.values())) for _, parameters in sorted(sizes.items())]
    whole = sum(totals)
    return tuple(total / whole for total in totals) if len(totals) > 1 and whole else ()


def _task_costs(stored: StoredRun, training: Training) -> tuple[list[TaskCost], float]:
    """CPU time between the first and the last sample of each task during the training, and the steps meanwhile."""
    samples = stored.samples.filter(pl.col("t_s").is_between(training.start_s, training.end_s)).sort("t_s")
    rows = samples.select("t_s", "tasks").explode("tasks").drop_nulls("tasks").unnest("tasks")
    columns = pl.col("t_s", "cpu_s")
    ends = rows.group_by("task").agg(columns.first().name.suffix("_first"), columns.last().name.suffix("_last"))
    windows = {row["task"]: row for row in ends.iter_rows(named=True)}
    step_ends = stored.collect(step_rows(stored).select("task", end=END_S))
    costs = []
    for place in stored.header.places:
        window = windows.get(place.task)
        if not window or window["t_s_last"] - window["t_s_first"] < MIN_SECONDS / 2:
            continue
        own = step_ends if place.role == SERVER else step_ends.filter(pl.col("task") == place.task)
        steps = own.filter(pl.col("end").is_between(window["t_s_first"], window["t_s_last"])).height
        cpu_s = window["cpu_s_last"] - window["cpu_s_first"]
        if steps and cpu_s > 0:
            costs.append(TaskCost(task=place.task, role=place.role, host=place.host, cpu_s=cpu_s, steps=steps))
    threads = _threads(stored)
    window_s = max((row["t_s_last"] - row["t_s_first"] for row in windows.values()), default=0.0)
    return [msgspec.structs.replace(cost, threads=threads.get(cost.task, 1)) for cost in costs], window_s


def _threads(stored: StoredRun) -> Mapping[str, int]:
    return {worker.task: worker.threads or 1 for worker in (stored.result or load_result(stored.paths)).workers}


def _bytes(result: Result) -> tuple[float, float]:
    """Bytes that a worker sends and receives in a step, on average."""
    known = [
        (worker.exchanged, worker.exchanged.steps or worker.own_steps) for worker in result.workers if worker.exchanged
    ]
    steps = sum(count for _, count in known)
    if not steps:
        return 0.0, 0.0
    sent, received = (sum(getattr(exchanged, name) for exchanged, _ in known) for name in ("sent_mb", "received_mb"))
    return sent * 1e6 / steps, received * 1e6 / steps


def repeated_part(result: Result, setup: Setup, step_bytes: float) -> float:
    """What passed the network besides the bytes that the exchange needs, relative to them; 0 if it is little.

    An engine may transfer values more often than necessary. `step_bytes`: what a worker sends and receives in a step.
    """
    if not setup.strategy.has_servers:
        return 0.0
    host_of = {place.task: place.host for place in setup.places}
    servers = [place for place in setup.places if place.role == SERVER]
    shares = setup.shares or (1 / len(servers),) * len(servers)
    needed = 0.0
    for worker in result.workers:
        remote = sum(shares[one.index] for one in servers if one.host != host_of[worker.task])
        needed += worker.own_steps * remote * step_bytes
    if not needed:
        return 0.0
    traffic = [host.external for host in result.hosts]
    carried = sum(one.tx_mb_s_mean * 1e6 - one.tx_packets_s_mean * HEADER_BYTES for one in traffic) * result.train_s
    further = carried / needed - 1
    return further if further > _LITTLE else 0.0


def _packets(result: Result) -> float | None:
    """Packets of all hosts per step of a worker."""
    steps = sum(worker.own_steps for worker in result.workers)
    packets_s = sum(host.external.tx_packets_s_mean for host in result.hosts)
    return packets_s * result.train_s / steps if steps and packets_s else None


def _traced_compute_s(result: Result) -> float | None:
    """Seconds of the compute phase, from traced steps."""
    phases = [worker.phases.get("compute", 0.0) / worker.own_steps for worker in result.workers if worker.own_steps]
    return fmean(phases) if phases and min(phases) > 0 else None


def _compute_times(stored: StoredRun) -> tuple[float | None, float | None]:
    """Spread on the log scale and median of the time that workers compute in a step."""
    rows = stored.scan_steps().filter((pl.col("kind") == "compute") & (pl.col("duration_s") > 0) & ~pl.col("traced"))
    logs = pl.col("duration_s").log()
    by_task = stored.collect(
        rows.group_by("task").agg(
            spread=(logs.quantile(0.75) - logs.quantile(0.25)) / 1.349, s=pl.col("duration_s").median()
        )
    )
    if not by_task.height:
        return None, None
    return float(by_task["spread"].mean()), float(by_task["s"].mean())  # type: ignore[arg-type]
