"""Convert the state of a sweep into Prometheus metric families. All metric names and labels are defined here.

Every series of a run has the labels run, workload, engine and strategy. Only the current run has series, so their
number is bounded by its tasks, hosts and cores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from math import isnan
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from paceline.control.progress import progress
from paceline.control.run_state import STALENESS_BOUNDS, RunState, WorkerState
from paceline.messages import HostSample, LinkCount
from paceline.metrics.sweep_state import SweepState
from paceline.store.result import Status

Labels = Mapping[str, str]
Rows = Iterable[tuple[Labels, float]]
"""The labels and the value of each series of a family."""
_ACTIVE_STAGES = ("starting", "training")


def families(sweep: SweepState) -> Iterator[Metric]:
    """All metric families of the sweep, with their current values."""
    state = sweep.run_state
    yield _gauge("paceline_info", "Version of Paceline.", [({"version": version("paceline")}, 1)])
    yield _gauge(
        "paceline_sweep_runs", "Number of runs in the sweep; 0 until the first run starts.", [({}, sweep.runs)]
    )
    yield _counter(
        "paceline_sweep_runs_finished",
        "Finished runs by status; 'before' are runs of an earlier sweep with the same name.",
        [({"status": status}, count) for status, count in sweep.finished.items()],
    )
    if state:
        labels = _run_labels(state)
        yield from _run_families(state, labels)
        yield from _worker_families(state, labels)
        samples = [({**labels, "host": name}, host.last) for name, host in state.hosts.items() if host.last]
        yield from _host_families(samples)
        yield from _task_families(samples)


def _run_labels(state: RunState) -> Labels:
    spec = state.plan.spec
    return {"run": state.run, "workload": state.plan.title, "engine": spec.engine, "strategy": spec.strategy}


def _run_families(state: RunState, run: Labels) -> Iterator[Metric]:
    plan, spec = state.plan, state.plan.spec
    more_labels = {"layout": str(plan.layout), "hosts": spec.hosts, "batch": str(spec.batch if plan.trains else 0)}
    current = state.status or state.stage
    statuses = [({**run, "status": name}, name == current) for name in (*_ACTIVE_STAGES, *get_args(Status))]
    yield _gauge(
        "paceline_run_info",
        "Layout, kind of hosts and batch size of the run; the value is always 1.",
        [({**run, **more_labels}, 1)],
    )
    yield _gauge("paceline_run_status", "1 for the current status of the run, 0 for all others.", statuses)
    yield _gauge(
        "paceline_run_progress_ratio",
        "Progress to each stop rule, from 0 to 1; the run ends when the first rule is at 1.",
        [({**run, "rule": rule}, share) for rule, share in progress(state).items()],
    )
    yield _gauge("paceline_run_train_seconds", "Training time so far in seconds.", [(run, state.elapsed_s)])
    yield _counter("paceline_run_updates", "Updates of the global parameters.", [(run, state.update)])
    yield _counter("paceline_run_incidents", "Incidents recorded in the events of the run.", [(run, state.incidents)])
    if state.evaluation and not isnan(state.evaluation[1]):
        _, loss, accuracy = state.evaluation
        yield _gauge("paceline_run_test_loss", "Loss on the test set at the last evaluation.", [(run, loss)])
        rows = [] if isnan(accuracy) else [(run, accuracy)]
        yield _gauge(
            "paceline_run_test_accuracy_ratio",
            "Share of the test set that was classified correctly at the last evaluation.",
            rows,
        )


def _worker_families(state: RunState, run: Labels) -> Iterator[Metric]:
    workers = [({**run, "worker": w.task, "host": w.host}, w) for w in state.workers.values()]
    batch = state.plan.spec.batch if state.plan.trains else 0
    yield _counter("paceline_worker_steps", "Finished steps.", [(labels, w.steps) for labels, w in workers])
    examples = [(labels, w.steps * batch) for labels, w in workers]
    yield _counter("paceline_worker_examples", "Examples trained on.", examples)
    text = "Loss on the batch of the last step." if state.plan.trains else "Value that the last step computed."
    yield _gauge(
        f"paceline_worker_{state.plan.step_gives}", text, [(labels, w.loss) for labels, w in workers if w.steps]
    )
    yield _counter(
        "paceline_worker_phase_seconds",
        "Seconds spent in each phase of a step; 'fused' is several phases that the engine does not measure separately.",
        [({**labels, "phase": phase}, spent) for labels, w in workers for phase, spent in w.phase_s.items()],
    )
    yield _staleness(workers)


def _staleness(workers: Iterable[tuple[Labels, WorkerState]]) -> Metric:
    with_counts = [(labels, worker) for labels, worker in workers if any(worker.staleness_counts)]
    text = "Updates by other workers between the pull and the push of a step."
    names = list(with_counts[0][0]) if with_counts else []
    family = HistogramMetricFamily("paceline_worker_staleness_updates", text, labels=names)
    for labels, worker in with_counts:
        bounds = [*map(str, map(float, STALENESS_BOUNDS)), "+Inf"]
        counts = accumulate(worker.staleness_counts)
        family.add_metric(list(labels.values()), list(zip(bounds, counts, strict=True)), worker.staleness_sum)
    return family


def _host_families(samples: Sequence[tuple[Labels, HostSample]]) -> Iterator[Metric]:
    cpu = [(labels, sample.cpu_s) for labels, sample in samples]
    yield _counter("paceline_host_cpu_seconds", "CPU time used by the host's tasks.", cpu)
    yield _counter(
        "paceline_host_core_busy_seconds",
        "Time each core of the host's machine was busy, with any process.",
        [
            ({**labels, "core": str(i)}, busy)
            for labels, sample in samples
            for i, busy in enumerate(sample.cores_busy_s)
        ],
    )
    memory = [(labels, sample.memory_bytes) for labels, sample in samples]
    yield _gauge("paceline_host_memory_bytes", "Resident memory of the host's tasks.", memory)
    scope = "since they were created; with hosts 'local', the interfaces of the whole machine."
    links = [
        ({**labels, "side": side}, link)
        for labels, sample in samples
        for side, link in (("external", sample.external), ("loopback", sample.loopback))
    ]
    yield _counter(
        "paceline_host_network_bytes", f"Bytes through the host's interfaces {scope}", _by_direction(links, "bytes")
    )
    packets = _by_direction(links, "packets")
    yield _counter("paceline_host_network_packets", f"Packets through the host's interfaces {scope}", packets)
    yield _counter(
        "paceline_host_disk_bytes",
        "Bytes that the host's tasks read from and wrote to disks.",
        [
            ({**labels, "direction": direction}, count)
            for labels, sample in samples
            for direction, count in (("read", sample.disk_read_bytes), ("write", sample.disk_write_bytes))
        ],
    )


def _by_direction(links: Sequence[tuple[Labels, LinkCount]], quantity: str) -> Rows:
    for labels, link in links:
        yield {**labels, "direction": "receive"}, getattr(link, f"rx_{quantity}")
        yield {**labels, "direction": "transmit"}, getattr(link, f"tx_{quantity}")


def _task_families(samples: Sequence[tuple[Labels, HostSample]]) -> Iterator[Metric]:
    tasks = [({**labels, "task": task.task}, task) for labels, sample in samples for task in sample.tasks]
    yield _counter(
        "paceline_task_cpu_seconds", "CPU time used by the task.", [(labels, task.cpu_s) for labels, task in tasks]
    )
    rss = [(labels, task.rss_bytes) for labels, task in tasks]
    yield _gauge("paceline_task_resident_memory_bytes", "Resident memory of the task.", rss)
    yield _gauge(
        "paceline_task_threads", "Number of threads of the task.", [(labels, task.threads) for labels, task in tasks]
    )
    yield _counter(
        "paceline_task_run_wait_seconds",
        "Time the task's threads were ready to run but waited for a core; measured only on Linux.",
        [(labels, task.run_wait_s) for labels, task in tasks if task.run_wait_s is not None],
    )


def _counter(name: str, text: str, rows: Rows) -> Metric:
    return _family(CounterMetricFamily, name, text, list(rows))


def _gauge(name: str, text: str, rows: Rows) -> Metric:
    return _family(GaugeMetricFamily, name, text, list(rows))


def _family(
    family_type: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    rows: list[tuple[Labels, float]],
) -> Metric:
    """A family with these rows, which must all have the same label names."""
    family = family_type(name, text, labels=list(rows[0][0]) if rows else [])
    for labels, value in rows:
        family.add_metric(list(labels.values()), value)
    return family
