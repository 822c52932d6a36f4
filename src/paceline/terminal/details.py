"""Draws everything about one run."""

from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.present import numbers
from paceline.present.bottleneck import bottleneck_location, bottleneck_share, second_cause
from paceline.present.labels import TIME_BY_PHASE
from paceline.present.notes import run_notes
from paceline.spec.experiment import DEFAULTS
from paceline.store.result import Result, WorkerResult
from paceline.terminal.fault_table import faults_table
from paceline.terminal.fitting_table import FittingTable
from paceline.terminal.tables import status

_SHOWN_ELSEWHERE = ("record", "sample_hz", "fault")
"""Settings that are not listed: those of the measurement itself, and faults, which have a table."""


def details(result: Result) -> RenderableType:
    faults: list[RenderableType] = [faults_table(result.faults), Text()] if result.faults else []
    return Stack(_head(result), Text(), _workers(result), Text(), _hosts(result), Text(), *faults, _closing(result))


def _head(result: Result) -> Table:
    reached = result.reached
    settings = {name: value for name, value in result.settings.items() if _is_notable(name, value)}
    rows: list[tuple[str, RenderableType]] = [
        ("run", f"{result.run}   ({result.started_at})"),
        ("status", status(result, with_reason=True)),
        (
            "configuration",
            f"{result.title} · {result.engine} · {result.strategy} · layout '{result.layout}' "
            f"on {result.hosts_kind} hosts{_batch(result)} · seed {result.seed} · repeat {result.repeat}",
        ),
        ("settings", ", ".join(f"{k} {' '.join(v) if isinstance(v, list) else v}" for k, v in settings.items())),
        ("data", result.data),
        (
            "time",
            f"training {numbers.seconds(result.train_s)}, startup {numbers.seconds(result.first_step_s)}, "
            f"total {numbers.seconds(result.total_s)}",
        ),
        ("throughput", _throughput(result)),
        ("quality", _quality(result)) if result.batch else ("value", numbers.exact(result.final.value)),
        (
            "target",
            f"{reached.rule} reached after {numbers.seconds(reached.at_s)}, {reached.at_update:,} updates"
            if reached
            else numbers.MISSING,
        ),
        ("directory", result.dir),
    ]
    return _labelled(rows)


def _labelled(rows: list[tuple[str, RenderableType]]) -> Table:
    """Two columns: labels and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(value) if isinstance(value, str) else value)
    return table


def _is_notable(setting: str, value: Any) -> bool:
    """Settings with their default value are left out."""
    return setting not in _SHOWN_ELSEWHERE and value != DEFAULTS.get(setting)


def _batch(result: Result) -> str:
    return f" · batch {result.batch}" if result.batch else ""


def _throughput(result: Result) -> str:
    updates = f"{numbers.number(result.updates_per_s)} updates/s ({result.updates:,} updates)"
    if not result.batch:
        return updates
    return f"{updates}, {numbers.number(result.examples_per_s)} examples/s ({result.examples:,} examples)"


def _quality(result: Result) -> str:
    parts = [f"test loss {numbers.loss(result.final.loss)}"]
    if result.final.accuracy is not None:
        parts.append(f"accuracy {numbers.accuracy(result.final.accuracy)}")
    if result.final.auc is not None:
        parts.append(f"AUC {result.final.auc:.4f}")
    return ", ".join(parts)


def _workers(result: Result) -> FittingTable:
    last = "staleness: mean / p95 / max" if result.batch else "fetched (MB): total / per update"
    table = FittingTable(["worker", "host", "steps"], [[TIME_BY_PHASE], [last]], left_aligned=[TIME_BY_PHASE, last])
    for worker in result.workers:
        steps = f"{worker.steps:,}" + (f" (+{worker.dropped:,} dropped as late)" if worker.dropped else "")
        phases = numbers.phase_shares(worker.phases)
        table.add([worker.task, worker.host, steps], [phases, _staleness(worker) if result.batch else _fetched(worker)])
    return table


def _staleness(worker: WorkerResult) -> str:
    stale = worker.staleness
    return f"{stale.mean:.2f} / {stale.p95:g} / {stale.max}" if stale else numbers.MISSING


def _fetched(worker: WorkerResult) -> str:
    return f"{numbers.number(worker.fetched_mb)} / {numbers.number(worker.fetched_mb / max(1, worker.steps))}"


def _hosts(result: Result) -> FittingTable:
    table = FittingTable(
        ["host", "tasks"],
        [
            ["cores mean", "cores max", "busiest core", "memory (MB)"],
            ["in (MB/s)", "out (MB/s)", "loopback (MB/s)"],
            ["disk read (MB)", "written (MB)"],
        ],
    )
    for host in result.hosts:
        values = [
            numbers.number(host.cpu_cores_mean),
            numbers.number(host.cpu_cores_max),
            numbers.percent(host.busiest_core_max),
            numbers.number(host.memory_mb_max),
            numbers.traffic(host.external.rx_mb_s_mean),
            numbers.traffic(host.external.tx_mb_s_mean),
            numbers.traffic(host.loopback.rx_mb_s_mean),
            numbers.number(host.disk.read_mb),
            numbers.number(host.disk.write_mb),
        ]
        table.add([host.host, " ".join(host.tasks)], values)
    return table


def _closing(result: Result) -> Table:
    """The bottleneck with evidence and remedies, then incidents and notes."""
    verdict = result.verdict
    share = bottleneck_share(verdict)
    location = Text.assemble(
        (bottleneck_location(verdict.cause, verdict.where), "bold"), f" ({share})" if share else ""
    )  # fmt: skip
    second = second_cause(verdict)
    rows: list[tuple[str, RenderableType]] = [
        ("bottleneck", location),
        *_rows("evidence", verdict.evidence),
        *_rows("second cause", [second] if second else []),
        *_rows("remedy", verdict.remedy),
        *_rows("incident", [f"{incident.t_s:.2f} s: {incident.what}" for incident in result.incidents], style="red"),
        *_rows("note", run_notes(result), style="dim"),
    ]
    return _labelled(rows)


def _rows(label: str, lines: list[str], style: str = "") -> list[tuple[str, RenderableType]]:
    """One row per line; only the first has the label."""
    return [(label if number == 0 else "", Text(line, style=style)) for number, line in enumerate(lines)]
