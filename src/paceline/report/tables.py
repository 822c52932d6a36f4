"""The tables of a report by configuration. Every value comes from results and is the one that `--json` prints."""

from collections.abc import Callable, Sequence
from statistics import mean

from paceline.analyze.metrics import (
    ACCURACY,
    EXAMPLES,
    LOSS,
    TO_TARGET,
    TRAIN,
    UPDATES,
    Metric,
    exchanged_mb_per_update,
)
from paceline.analyze.repeats import Group
from paceline.present.labels import REPEATS_LEGEND, TIME_BY_PHASE
from paceline.present.numbers import exact, phase_shares
from paceline.report.table import (
    Cell,
    DataTable,
    count_cell,
    metric_cell,
    setting_cells,
    setting_columns,
    text_cell,
)
from paceline.store.result import HostResult, Result

ReadHost = Callable[[HostResult], float]


def group_tables(groups: Sequence[Group]) -> list[DataTable]:
    return [
        time_and_accuracy(groups),
        steps_by_worker(groups),
        resources(groups),
        throughput(groups),
        layouts(groups),
    ]


def time_and_accuracy(groups: Sequence[Group]) -> DataTable:
    results = [result for group in groups for result in group.results]
    has_value = any(result.final.value is not None for result in results)
    has_auc = any(result.final.auc is not None for result in results)
    columns = [
        "runs", "status", TRAIN.title, "updates", TO_TARGET.title, "total time (s)", LOSS.title, ACCURACY.title,
    ]  # fmt: skip
    rows = []
    for group in groups:
        row = [
            count_cell(len(group.results)),
            text_cell(_status(group)),
            _metric(group, TRAIN),
            metric_cell(group, lambda r: r.updates, digits=0),
            _metric(group, TO_TARGET),
            metric_cell(group, lambda r: r.total_s),
            _metric(group, LOSS),
            _metric(group, ACCURACY),
        ]
        row += [metric_cell(group, lambda r: r.final.auc, digits=4)] if has_auc else []
        row += [_final_value(group)] if has_value else []
        rows.append([*setting_cells(group, groups), *row])
    columns += ["AUC"] * has_auc + ["value"] * has_value
    note = f"Values: {REPEATS_LEGEND}, without failed runs. The total time includes the startup."
    return _table("Time and accuracy", note, groups, columns, rows)


def steps_by_worker(groups: Sequence[Group]) -> DataTable:
    columns = max(([worker.task for worker in group.first.workers] for group in groups), key=len, default=[])
    rows = []
    for group in groups:
        workers = len(group.first.workers)
        steps = [metric_cell(group, lambda r, i=i: r.workers[i].steps, digits=0) for i in range(workers)]  # type: ignore[misc]
        rows.append([*setting_cells(group, groups), *steps, *[Cell("")] * (len(columns) - workers)])
    return _table("Steps per worker", f"Values: {REPEATS_LEGEND}.", groups, columns, rows)


def resources(groups: Sequence[Group]) -> DataTable:
    columns = [
        "cores per host", "cores, all hosts", "memory per host (MB)", "network in (MB/s)", "network out (MB/s)",
        "loopback in (MB/s)", "loopback out (MB/s)", "exchanged per update (MB)",
    ]  # fmt: skip
    rows = [
        [
            *setting_cells(group, groups),
            _over_hosts(group, lambda h: h.cpu_cores_mean),
            _over_hosts(group, lambda h: h.cpu_cores_mean, add=True),
            _over_hosts(group, lambda h: h.memory_mb_max),
            _over_hosts(group, lambda h: h.external.rx_mb_s_mean),
            _over_hosts(group, lambda h: h.external.tx_mb_s_mean),
            _over_hosts(group, lambda h: h.loopback.rx_mb_s_mean),
            _over_hosts(group, lambda h: h.loopback.tx_mb_s_mean),
            metric_cell(group, exchanged_mb_per_update),
        ]
        for group in sorted(groups, key=lambda group: group.first.batch)
    ]
    note = (
        "Means over the training and over the hosts of a run; memory is the peak of each host. If the hosts share one "
        "machine (local hosts), network values are those of the machine. Exchanged: gradients and parameters that the "
        "workers sent and received, also through shared memory, which no interface sees."
    )
    return _table("CPU, memory and network", note, groups, columns, rows)


def throughput(groups: Sequence[Group]) -> DataTable:
    rows = [
        [
            *setting_cells(group, groups),
            count_cell(len(group.first.workers)),
            _metric(group, EXAMPLES),
            _metric(group, UPDATES),
            metric_cell(group, seconds_per_batch),
            metric_cell(group, lambda r: r.first_step_s),
        ]
        for group in groups
    ]
    columns = ["workers", EXAMPLES.title, UPDATES.title, "time per batch (s)", "startup (s)"]
    note = "Time per batch: how long one worker takes for one batch, which is batch × workers / (examples/s)."
    return _table("Throughput", note, groups, columns, rows)


def layouts(groups: Sequence[Group]) -> DataTable:
    rows = []
    for group in sorted(groups, key=lambda group: (len(group.first.hosts), group.first.layout)):
        first = group.first
        rows.append(
            [
                *setting_cells(group, groups),
                count_cell(len(first.hosts)),
                count_cell(sum(len(host.tasks) for host in first.hosts) - len(first.workers)),
                count_cell(len(first.workers)),
                _metric(group, UPDATES),
                _metric(group, EXAMPLES),
                metric_cell(group, lambda r: r.examples_per_s / max(1, len(r.workers)) if r.batch else None),
                _metric(group, TO_TARGET),
                text_cell(_largest_phases(group)),
            ]
        )
    columns = [
        "hosts", "parameter servers", "workers", UPDATES.title, EXAMPLES.title, "examples/s per worker",
        TO_TARGET.title, TIME_BY_PHASE,
    ]  # fmt: skip
    note = "A layout has one word per host: p is a parameter server, w is a worker."
    return _table("Cluster layouts", note, groups, columns, rows)


def seconds_per_batch(result: Result) -> float | None:
    if not result.batch or not result.examples_per_s:
        return None
    return result.batch * len(result.workers) / result.examples_per_s


def _metric(group: Group, metric: Metric) -> Cell:
    return metric_cell(group, metric.read, scale=metric.label.scale, digits=metric.label.digits)


def _table(
    name: str, note: str, groups: Sequence[Group], columns: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> DataTable:
    return DataTable(name=name, note=note, columns=[*setting_columns(groups), *columns], rows=rows)


def _over_hosts(group: Group, read: ReadHost, *, add: bool = False) -> Cell:
    """The mean of a host metric over the hosts of a run, or the sum."""

    def over_hosts(result: Result) -> float | None:
        values = [read(host) for host in result.hosts]
        return (sum(values) if add else mean(values)) if values else None

    return metric_cell(group, over_hosts)


def _largest_phases(group: Group) -> str:
    phases: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            for phase, seconds in worker.phases.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
    return phase_shares(phases, most=3)


def _final_value(group: Group) -> Cell:
    value = (group.ok or group.results)[0].final.value
    return Cell(exact(value), value)


def _status(group: Group) -> str:
    """`1 failed, 2 ok`, or `ok` if all runs are."""
    states = [result.status for result in group.results]
    bad = [state for state in ("failed", "diverged", "aborted") if state in states]
    parts = [f"{states.count(state)} {state}" for state in bad] + ([f"{len(group.ok)} ok"] if group.ok else [])
    tainted = any(result.tainted for result in group.results)
    return ("ok" if not bad else ", ".join(parts)) + (" (tainted)" if tainted else "")
