"""A sweep's state as Prometheus' metric families. Pure: what is served is decided here and nowhere else.

Every series of a run carries its run, workload, engine and strategy; there is one run at a time, so that the number
of series is bounded by its tasks, hosts and cores.
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
_UNDER_WAY = ("starting", "training")


def families(sweep: SweepState) -> Iterator[Metric]:
    """Everything, at this moment."""
    moment = sweep.moment
    yield _gauge("paceline_info", "Which Paceline this is.", [({"version": version("paceline")}, 1)])
    yield _gauge("paceline_sweep_runs", "Runs of the sweep, once the first has begun.", [({}, sweep.runs)])
    yield _counter(
        "paceline_sweep_runs_finished",
        "Runs done, by how they ended; 'before' were made by an earlier sweep of the same name.",
        [({"status": status}, count) for status, count in sweep.finished.items()],
    )
    if moment:
        run = _labels_of(moment)
        yield from _of_run(moment, run)
        yield from _of_workers(moment, run)
        samples = [({**run, "host": name}, host.last) for name, host in moment.hosts.items() if host.last]
        yield from _of_hosts(samples)
        yield from _of_tasks(samples)


def _labels_of(moment: RunState) -> Labels:
    spec = moment.plan.spec
    return {"run": moment.run, "workload": moment.plan.title, "engine": spec.engine, "strategy": spec.strategy}


def _of_run(moment: RunState, run: Labels) -> Iterator[Metric]:
    plan, spec = moment.plan, moment.plan.spec
    about = {"layout": str(plan.layout), "hosts": spec.hosts, "batch": str(spec.batch if plan.trains else 0)}
    status = moment.status or moment.stage
    states = [({**run, "status": name}, name == status) for name in (*_UNDER_WAY, *get_args(Status))]
    yield _gauge("paceline_run_info", "What else the run is.", [({**run, **about}, 1)])
    yield _gauge("paceline_run_status", "1 for the status the run has, 0 for those it has not.", states)
    yield _gauge(
        "paceline_run_progress_ratio",
        "How much of the way to each stop rule is made; the first to be at 1 ends the run.",
        [({**run, "rule": rule}, share) for rule, share in progress(moment).items()],
    )
    yield _gauge("paceline_run_train_seconds", "Seconds of training so far.", [(run, moment.elapsed_s)])
    yield _counter("paceline_run_updates", "Updates of the parameters.", [(run, moment.update)])
    yield _counter("paceline_run_incidents", "What went wrong, as told in the run's record.", [(run, moment.incidents)])
    if moment.evaluation:
        _, loss, accuracy = moment.evaluation
        yield _gauge("paceline_run_test_loss", "Loss on the test set, last time it was evaluated.", [(run, loss)])
        rows = [] if isnan(accuracy) else [(run, accuracy)]
        yield _gauge("paceline_run_test_accuracy_ratio", "Share of the test set that is got right.", rows)


def _of_workers(moment: RunState, run: Labels) -> Iterator[Metric]:
    workers = [({**run, "worker": w.task, "host": w.host}, w) for w in moment.workers.values()]
    batch = moment.plan.spec.batch if moment.plan.trains else 0
    yield _counter("paceline_worker_steps", "Steps made.", [(labels, w.steps) for labels, w in workers])
    examples = [(labels, w.steps * batch) for labels, w in workers]
    yield _counter("paceline_worker_examples", "Examples trained on.", examples)
    what = "Loss of the last step's batch." if moment.plan.trains else "What the last step computed."
    yield _gauge(
        f"paceline_worker_{moment.plan.step_gives}", what, [(labels, w.loss) for labels, w in workers if w.steps]
    )
    yield _counter(
        "paceline_worker_phase_seconds",
        "Seconds spent in each phase of a step; 'fused' holds several that the engine does not tell apart.",
        [({**labels, "phase": phase}, spent) for labels, w in workers for phase, spent in w.phase_s.items()],
    )
    yield _staleness(workers)


def _staleness(workers: Iterable[tuple[Labels, WorkerState]]) -> Metric:
    told = [(labels, worker) for labels, worker in workers if any(worker.staleness_counts)]
    text = "Updates by others between a step's pull and its push."
    names = list(told[0][0]) if told else []
    family = HistogramMetricFamily("paceline_worker_staleness_updates", text, labels=names)
    for labels, worker in told:
        bounds = [*map(str, map(float, STALENESS_BOUNDS)), "+Inf"]
        counts = accumulate(worker.staleness_counts)
        family.add_metric(list(labels.values()), list(zip(bounds, counts, strict=True)), worker.staleness_sum)
    return family


def _of_hosts(samples: Sequence[tuple[Labels, HostSample]]) -> Iterator[Metric]:
    cpu = [(labels, sample.cpu_s) for labels, sample in samples]
    yield _counter("paceline_host_cpu_seconds", "CPU time used by the host's tasks.", cpu)
    yield _counter(
        "paceline_host_core_busy_seconds",
        "Time each core of the host's machine was busy, with whatever.",
        [({**labels, "core": str(i)}, busy) for labels, one in samples for i, busy in enumerate(one.cores_busy_s)],
    )
    memory = [(labels, sample.memory_bytes) for labels, sample in samples]
    yield _gauge("paceline_host_memory_bytes", "Resident memory of the host's tasks.", memory)
    whose = "since it was started; with hosts 'local' those of the whole machine."
    links = [
        ({**labels, "side": side}, link)
        for labels, sample in samples
        for side, link in (("external", sample.external), ("loopback", sample.loopback))
    ]
    yield _counter("paceline_host_network_bytes", f"Bytes through the host's interfaces {whose}", _ways(links, "bytes"))
    packets = _ways(links, "packets")
    yield _counter("paceline_host_network_packets", f"Packets through the host's interfaces {whose}", packets)
    yield _counter(
        "paceline_host_disk_bytes",
        "Bytes the host's tasks read from disks and wrote to them.",
        [
            ({**labels, "direction": direction}, count)
            for labels, one in samples
            for direction, count in (("read", one.disk_read_bytes), ("write", one.disk_write_bytes))
        ],
    )


def _ways(links: Sequence[tuple[Labels, LinkCount]], what: str) -> Rows:
    for labels, link in links:
        yield {**labels, "direction": "receive"}, getattr(link, f"rx_{what}")
        yield {**labels, "direction": "transmit"}, getattr(link, f"tx_{what}")


def _of_tasks(samples: Sequence[tuple[Labels, HostSample]]) -> Iterator[Metric]:
    tasks = [({**labels, "task": task.task}, task) for labels, sample in samples for task in sample.tasks]
    yield _counter("paceline_task_cpu_seconds", "CPU time used.", [(labels, task.cpu_s) for labels, task in tasks])
    rss = [(labels, task.rss_bytes) for labels, task in tasks]
    yield _gauge("paceline_task_resident_memory_bytes", "Resident memory.", rss)
    yield _gauge("paceline_task_threads", "Threads.", [(labels, task.threads) for labels, task in tasks])
    yield _counter(
        "paceline_task_run_wait_seconds",
        "Time its threads were ready to run but had to wait for a core; only Linux counts it.",
        [(labels, task.run_wait_s) for labels, task in tasks if task.run_wait_s is not None],
    )


def _counter(name: str, text: str, rows: Rows) -> Metric:
    return _filled(CounterMetricFamily, name, text, list(rows))


def _gauge(name: str, text: str, rows: Rows) -> Metric:
    return _filled(GaugeMetricFamily, name, text, list(rows))


def _filled(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily], name: str, text: str, rows: list[tuple[Labels, float]]
) -> Metric:
    """All rows of a family have the same labels."""
    family = kind(name, text, labels=list(rows[0][0]) if rows else [])
    for labels, value in rows:
        family.add_metric(list(labels.values()), value)
    return family
