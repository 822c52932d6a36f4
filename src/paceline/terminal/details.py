"""Draws everything about one run."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.present import numbers
from paceline.present.bottleneck import (
    account_text,
    advice_and_command,
    bottleneck_location,
    bottleneck_share,
    second_cause,
)
from paceline.present.labels import TIME_BY_PHASE
from paceline.present.links import LEGEND, link_table
from paceline.present.notes import incident_text, logs_of, run_notes
from paceline.spec.experiment import DEFAULTS
from paceline.store.result import Result, WorkerResult
from paceline.terminal.fault_table import faults_table
from paceline.terminal.fitting_table import FittingTable, UnwrappedLine
from paceline.terminal.tables import status
from paceline.units import duration_text

_SHOWN_ELSEWHERE = ("record", "sample_hz", "fault")
"""Settings that are not listed: those of the measurement itself, and faults, which have a table."""
_LABEL_WIDTH = len("second cause")


def details(result: Result) -> RenderableType:
    """Everything about a run. A run without a step has nothing to measure: only what it was and why it ended."""
    parts: list[RenderableType] = [_head(result)]
    if _made_steps(result):
        parts += [_workers(result), *([_hosts(result)] if _has_samples(result) else [])]
        parts += [Stack(*_links(result))] if result.links else []
    parts += [faults_table(result.faults)] if result.faults else []
    parts.append(_closing(result))
    return Stack(*[item for part in parts for item in (part, Text())][:-1])


def _made_steps(result: Result) -> bool:
    return any(worker.steps for worker in result.workers)


def _has_samples(result: Result) -> bool:
    """False if the run ended before the first sample of a host, or if nothing was recorded."""
    return any(host.memory_mb_max or host.cpu_cores_max for host in result.hosts)


def _head(result: Result) -> Table:
    settings = {name: value for name, value in result.settings.items() if _is_notable(name, value)}
    rows: list[tuple[str, RenderableType]] = [
        ("run", f"{result.run}   ({result.started_at})"),
        ("status", status(result, with_reason=True)),
        (
            "configuration",
            f"{result.title} · {result.engine} · {result.strategy} · layout '{result.layout}' "
            f"on {result.hosts_kind} hosts{_batch(result)}{_seed(result)} · repeat {result.repeat}",
        ),
        (
            "settings",
            ", ".join(
                [
                    *(f"{k} {' '.join(v) if isinstance(v, list) else v}" for k, v in settings.items()),
                    *_time_limit(result),
                ]
            ),
        ),
        ("data", result.data),
        *(_measured(result) if _made_steps(result) else [("time", f"total {numbers.seconds(result.total_s)}")]),
        ("directory", result.dir),
        *([("logs", logs_of(result))] if result.status != "ok" else []),
    ]
    return _labelled(rows)


def _measured(result: Result) -> list[tuple[str, RenderableType]]:
    """Time, throughput and quality of a run that made steps."""
    reached = result.reached
    return [
        (
            "time",
            f"training {numbers.seconds(result.train_s)}, startup {numbers.seconds(result.first_step_s)}, "
            f"total {numbers.seconds(result.total_s)}",
        ),
        ("throughput", _throughput(result)),
        *_quality_rows(result),
        (
            "target",
            f"{reached.rule} reached after {numbers.seconds(reached.at_s)}, {reached.at_update:,} updates"
            if reached
            else numbers.MISSING,
        ),
        *([("clocks", _clocks(result))] if any(host.clock_uncertainty_us for host in result.hosts) else []),
    ]


def _clocks(result: Result) -> str:
    worst = max(result.hosts, key=lambda host: host.clock_uncertainty_us)
    return (
        f"known to ±{numbers.number(worst.clock_uncertainty_us)} µs or better ({worst.host} is the worst); "
        "phases are not split finer"
    )


def _quality_rows(result: Result) -> list[tuple[str, RenderableType]]:
    if result.is_script and result.final.loss is None:
        return []
    is_trained = result.batch or result.is_script
    return [("quality", _quality(result)) if is_trained else ("value", numbers.exact(result.final.value))]


def _labelled(rows: list[tuple[str, RenderableType]], *, label_width: int = 0) -> Table:
    """Two columns: labels and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=label_width)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(value) if isinstance(value, str) else value)
    return table


def _is_notable(setting: str, value: Any) -> bool:
    """Settings with their default value are left out."""
    return setting not in _SHOWN_ELSEWHERE and value != [] and value != DEFAULTS.get(setting)


def _time_limit(result: Result) -> list[str]:
    return [] if result.time_limit_s is None else [f"time limit {duration_text(result.time_limit_s)}"]


def _batch(result: Result) -> str:
    return f" · batch {result.batch}" if result.batch else ""


def _seed(result: Result) -> str:
    return "" if result.is_script else f" · seed {result.seed}"


def _throughput(result: Result) -> str:
    updates = f"{numbers.number(result.updates_per_s)} updates/s ({_updates(result)})"
    if not result.batch:
        return updates
    tokens = "" if result.tokens_per_s is None else f", {numbers.number(result.tokens_per_s)} tokens/s"
    return f"{updates}, {numbers.number(result.examples_per_s)} examples/s ({result.examples:,} examples){tokens}"


def _updates(result: Result) -> str:
    if not result.updates_before:
        return f"{result.updates:,} updates"
    own = result.updates - result.updates_before
    return f"{result.updates:,} updates, {own:,} of them in this run after {result.updates_before:,} in the resumed one"


def _quality(result: Result) -> str:
    parts = [f"test loss {numbers.loss(result.final.loss)}"]
    if result.final.accuracy is not None:
        parts.append(f"accuracy {numbers.accuracy(result.final.accuracy)}")
    if result.final.auc is not None:
        parts.append(f"AUC {result.final.auc:.4f}")
    parts += [f"{name} {value:.4g}" for name, value in result.final.metrics.items()]
    return ", ".join(parts)


def _workers(result: Result) -> FittingTable:
    last = "staleness: mean / p95 / max" if result.batch or result.is_script else "fetched (MB): total / per update"
    exchanged = "exchanged (MB): sent / received / per step"
    table = FittingTable(
        ["worker", "host", "steps"],
        [[TIME_BY_PHASE], [exchanged], [last]],
        left_aligned=[TIME_BY_PHASE, exchanged, last],
    )
    for worker in result.workers:
        steps = f"{worker.steps:,}" + (f" (+{worker.dropped:,} dropped as late)" if worker.dropped else "")
        phases = numbers.phase_shares(worker.phases)
        values = [
            phases,
            _exchanged(worker),
            _staleness(worker) if result.batch or result.is_script else _fetched(worker),
        ]
        table.add([worker.task, worker.host, steps], values)
    return table


def _exchanged(worker: WorkerResult) -> str:
    if worker.exchanged is None:
        return numbers.MISSING
    sent, received = worker.exchanged.sent_mb, worker.exchanged.received_mb
    steps = worker.own_steps if worker.exchanged.steps is None else worker.exchanged.steps
    return " / ".join(map(numbers.number, (sent, received, (sent + received) / max(1, steps))))


def _staleness(worker: WorkerResult) -> str:
    stale = worker.staleness
    return f"{stale.mean:.2f} / {stale.p95:g} / {stale.max}" if stale else numbers.MISSING


def _fetched(worker: WorkerResult) -> str:
    return f"{numbers.number(worker.fetched_mb)} / {numbers.number(worker.fetched_mb / max(1, worker.own_steps))}"


def _hosts(result: Result) -> FittingTable:
    table = FittingTable(
        ["host", "tasks"],
        [
            ["cores mean", "cores max", "busiest core", "memory (MB)"],
            ["in (MB/s)", "out (MB/s)", "loopback (MB/s)"],
            ["disk read (MB)", "written (MB)"],
            ["memory mean (MB)", "machine: free (MB)", "load average"],
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
            numbers.number(host.memory_mb_mean),
            numbers.number(host.memory_free_mb_mean),
            numbers.number(host.load_average_mean),
        ]
        table.add([host.host, " ".join(host.tasks)], values)
    return table


def _links(result: Result) -> list[RenderableType]:
    headings, rows = link_table(result.links)
    table = FittingTable(headings[:1], [[heading] for heading in headings[1:]])
    for first, *others in rows:
        table.add([first], others)
    return [Text(f"links between hosts: {LEGEND}", style="dim"), table]


def _closing(result: Result) -> Stack:
    """The bottleneck with evidence and remedies, then incidents and notes."""
    verdict = result.verdict
    share = bottleneck_share(verdict)
    location = Text.assemble(
        (bottleneck_location(verdict.cause, verdict.where), "bold"), f" ({share})" if share else ""
    )  # fmt: skip
    second = second_cause(verdict)
    finding: list[tuple[str, RenderableType]] = [
        ("bottleneck", location),
        *_rows("time spent", [spent] if (spent := account_text(verdict)) else []),
        *_rows("evidence", verdict.evidence),
        *_rows("second cause", [second] if second else []),
    ]
    notes = [
        *_rows("incident", list(map(incident_text, result.incidents)), style="red"),
        *_rows("note", run_notes(result), style="dim"),
    ]
    made_steps = _made_steps(result)
    if not made_steps:
        finding = [("steps", "none: the run ended before its first step")]
    tables = [_labelled(rows, label_width=_LABEL_WIDTH) for rows in (finding, notes) if rows]
    return Stack(tables[0], *(_remedies(verdict.remedy) if made_steps else []), *tables[1:])


def _remedies(remedies: list[str]) -> Iterator[RenderableType]:
    """Each advice, with its command on a line of its own that is never wrapped, so that it can be copied."""
    for number, remedy in enumerate(remedies):
        advice, command = advice_and_command(remedy)
        yield _labelled(_rows("remedy" if number == 0 else "", [advice]), label_width=_LABEL_WIDTH)
        if command:
            yield UnwrappedLine(f"{' ' * (_LABEL_WIDTH + 4)}{command}")


def _rows(label: str, lines: list[str], style: str = "") -> list[tuple[str, RenderableType]]:
    """One row per line; only the first has the label."""
    return [(label if number == 0 else "", Text(line, style=style)) for number, line in enumerate(lines)]
