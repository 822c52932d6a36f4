"""The tables of a report: every figure comes from results, and is the one `--json` prints."""

from collections.abc import Callable, Sequence
from statistics import mean

from paceline.analyze.repeats import Group, setting, varied
from paceline.report.table import Cell, DataTable, count, figure, words
from paceline.store.result import HostResult, Result
from paceline.terminal import format as fmt

_ALWAYS = ("engine", "strategy", "layout", "batch")
OfHost = Callable[[HostResult], float]


def sheets(groups: Sequence[Group]) -> list[DataTable]:
    """Those that have something in them."""
    made = [time_and_accuracy(groups), iterations(groups), resources(groups), paces(groups), structures(groups)]
    return [sheet for sheet in made if sheet.rows]


def time_and_accuracy(groups: Sequence[Group]) -> DataTable:
    values = any(result.final.value is not None for group in groups for result in group.results)
    aucs = any(result.final.auc is not None for group in groups for result in group.results)
    columns = ["runs", "status", "time s", "updates", "to target s", "total s", "test loss", "accuracy %"]
    rows = []
    for group in groups:
        row = [
            count(len(group.results)),
            words(_status(group)),
            figure(group, lambda r: r.train_s),
            figure(group, lambda r: r.updates, digits=0),
            figure(group, lambda r: r.to_target_s),
            figure(group, lambda r: r.total_s),
            figure(group, lambda r: r.final.loss, digits=4),
            figure(group, lambda r: r.final.accuracy, scale=100, digits=2),
        ]
        row += [figure(group, lambda r: r.final.auc, digits=4)] if aucs else []
        row += [_value(group)] if values else []
        rows.append([*_names(group, groups), *row])
    columns += ["AUC"] * aucs + ["value"] * values
    note = "Seconds of training; median ± the furthest of the repeats that went well."
    return _sheet("Time and accuracy by mode and batch size", note, groups, columns, rows)


def iterations(groups: Sequence[Group]) -> DataTable:
    widest = max((len(group.first.workers) for group in groups), default=0)
    rows = []
    for group in groups:
        workers = len(group.first.workers)
        steps = [figure(group, lambda r, i=i: r.workers[i].steps, digits=0) for i in range(workers)]  # type: ignore[misc]
        rows.append([*_names(group, groups), *steps, *[Cell("")] * (widest - workers)])
    columns = [f"w{number}" for number in range(widest)]
    note = "Steps that each worker made; median ± the furthest of the repeats."
    return _sheet("Iterations per worker", note, groups, columns, rows)


def resources(groups: Sequence[Group]) -> DataTable:
    columns = [
        "cores per host", "cores, all hosts", "memory per host MB", "external in MB/s", "external out MB/s",
        "loopback in MB/s", "loopback out MB/s",
    ]  # fmt: skip
    rows = [
        [
            *_names(group, groups),
            _of_hosts(group, lambda h: h.cpu_cores_mean),
            _of_hosts(group, lambda h: h.cpu_cores_mean, add=True),
            _of_hosts(group, lambda h: h.memory_mb_max),
            _of_hosts(group, lambda h: h.external.rx_mb_s_mean),
            _of_hosts(group, lambda h: h.external.tx_mb_s_mean),
            _of_hosts(group, lambda h: h.loopback.rx_mb_s_mean),
            _of_hosts(group, lambda h: h.loopback.tx_mb_s_mean),
        ]
        for group in sorted(groups, key=lambda group: group.first.batch)
    ]
    note = (
        "Means over the training and over the hosts of a run; memory is each host's maximum. Network figures are the "
        "machine's where hosts share one."
    )
    return _sheet("CPU, memory and network by batch size", note, groups, columns, rows)


def paces(groups: Sequence[Group]) -> DataTable:
    rows = [
        [
            *_names(group, groups),
            count(len(group.first.workers)),
            figure(group, lambda r: r.examples_per_s if r.batch else None),
            figure(group, lambda r: r.updates_per_s),
            figure(group, seconds_per_batch),
            figure(group, lambda r: r.first_step_s),
        ]
        for group in groups
    ]
    columns = ["workers", "examples/s", "updates/s", "s/batch", "first step after s"]
    note = "s/batch: what a worker needs for one batch, from one to the next: batch × workers / examples/s."
    return _sheet("Examples/s and s/batch", note, groups, columns, rows)


def structures(groups: Sequence[Group]) -> DataTable:
    rows = []
    for group in sorted(groups, key=lambda group: (len(group.first.hosts), group.first.layout)):
        first = group.first
        rows.append(
            [
                *_names(group, groups),
                count(len(first.hosts)),
                count(sum(len(host.tasks) for host in first.hosts) - len(first.workers)),
                count(len(first.workers)),
                figure(group, lambda r: r.updates_per_s),
                figure(group, lambda r: r.examples_per_s if r.batch else None),
                figure(group, lambda r: r.examples_per_s / max(1, len(r.workers)) if r.batch else None),
                figure(group, lambda r: r.to_target_s),
                words(_largest_phases(group)),
            ]
        )
    columns = [
        "hosts", "servers", "workers", "updates/s", "examples/s", "examples/s per worker", "to target s",
        "where workers' time went",
    ]  # fmt: skip
    note = "A layout's words are hosts: p is a parameter server, w a worker."
    return _sheet("Cluster structures compared", note, groups, columns, rows)


def seconds_per_batch(result: Result) -> float | None:
    if not result.batch or not result.examples_per_s:
        return None
    return result.batch * len(result.workers) / result.examples_per_s


def name_columns(groups: Sequence[Group]) -> list[str]:
    also = [name for name in varied(groups) if name not in _ALWAYS]
    return [*_ALWAYS, *also]


def _names(group: Group, groups: Sequence[Group]) -> list[Cell]:
    return [
        Cell(fmt.batch(group.first.batch), group.first.batch) if name == "batch" else words(setting(group.first, name))
        for name in name_columns(groups)
    ]


def _sheet(
    name: str, note: str, groups: Sequence[Group], columns: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> DataTable:
    return DataTable(name=name, note=note, columns=[*name_columns(groups), *columns], rows=rows)


def _of_hosts(group: Group, of: OfHost, *, add: bool = False) -> Cell:
    def over_hosts(result: Result) -> float | None:
        values = [of(host) for host in result.hosts]
        return (sum(values) if add else mean(values)) if values else None

    return figure(group, over_hosts)


def _largest_phases(group: Group) -> str:
    phases: dict[str, float] = {}
    for result in group.ok:
        for worker in result.workers:
            for phase, seconds in worker.phases.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
    return fmt.phase_shares(phases, most=3)


def _value(group: Group) -> Cell:
    value = (group.ok or group.results)[0].final.value
    return Cell(fmt.exact(value), value)


def _status(group: Group) -> str:
    """What became of the runs, the bad news first."""
    states = [result.status for result in group.results]
    bad = [state for state in ("failed", "diverged", "aborted") if state in states]
    parts = [f"{states.count(state)} {state}" for state in bad] + ([f"{len(group.ok)} ok"] if group.ok else [])
    tainted = any(result.tainted for result in group.results)
    return ("ok" if not bad else ", ".join(parts)) + (" (tainted)" if tainted else "")
