"""One run in full."""

from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.spec.experiment import DEFAULTS
from paceline.store.result import Result, Verdict, WorkerResult
from paceline.terminal import format as fmt
from paceline.terminal.fault_table import faults_table
from paceline.terminal.tables import align_right, plain_table, status

NOTABLE_CORES = 0.3
"""Used by others meanwhile: from here on a reader should know."""
_SHORT_S = 1.0
_TOLD_ELSEWHERE = ("record", "sample_hz", "fault")


def details(result: Result) -> RenderableType:
    """Everything about one run."""
    faults: list[RenderableType] = [faults_table(result.faults), Text()] if result.faults else []
    return Stack(_head(result), Text(), _workers(result), Text(), _hosts(result), Text(), *faults, *_closing(result))


def _head(result: Result) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    reached = result.reached
    asked = {k: v for k, v in result.settings.items() if _worth_telling(k, v)}
    rows: list[tuple[str, RenderableType]] = [
        ("run", f"{result.run}   ({result.started_at})"),
        ("status", status(result, with_reason=True)),
        (
            "what",
            f"{result.title} · {result.engine} · {result.strategy} · layout '{result.layout}' "
            f"on {result.hosts_kind}{_batch(result)} · seed {result.seed} · repeat {result.repeat}",
        ),
        ("settings", ", ".join(f"{k} {' '.join(v) if isinstance(v, list) else v}" for k, v in asked.items())),
        ("data", result.data),
        (
            "time",
            f"{fmt.seconds(result.train_s)} training, first step after {fmt.seconds(result.first_step_s)}, "
            f"{fmt.seconds(result.total_s)} in all",
        ),
        ("pace", _pace(result)),
        ("quality", _quality(result)) if result.batch else ("value", fmt.exact(result.final.value)),
        (
            "reached",
            f"{reached.rule} after {fmt.seconds(reached.at_s)}, {reached.at_update:,} updates" if reached else "-",
        ),
        ("directory", result.dir),
    ]
    for label, value in rows:
        table.add_row(label, Text(value) if isinstance(value, str) else value)
    return table


def _worth_telling(setting: str, value: Any) -> bool:
    """What nobody asked for is noise."""
    return setting not in _TOLD_ELSEWHERE and value != DEFAULTS.get(setting)


def _batch(result: Result) -> str:
    return f" · batch {result.batch}" if result.batch else ""


def _pace(result: Result) -> str:
    updates = f"{result.updates:,} updates at {fmt.number(result.updates_per_s)}/s"
    if not result.batch:
        return updates
    return f"{updates}, {result.examples:,} examples at {fmt.number(result.examples_per_s)}/s"


def _quality(result: Result) -> str:
    parts = [f"test loss {fmt.loss(result.final.loss)}"]
    if result.final.accuracy is not None:
        parts.append(f"accuracy {fmt.percent(result.final.accuracy)}")
    if result.final.auc is not None:
        parts.append(f"AUC {result.final.auc:.4f}")
    return ", ".join(parts)


def _workers(result: Result) -> Table:
    last = "staleness mean / p95 / max" if result.batch else "fetched MB, per update"
    table = plain_table("worker", "host", "steps", "where its time went", last)
    align_right(table, "steps")
    for worker in result.workers:
        table.add_row(
            worker.task,
            worker.host,
            f"{worker.steps:,}" + (f" (+{worker.dropped:,} too late)" if worker.dropped else ""),
            fmt.phase_shares(worker.phases),
            _staleness(worker) if result.batch else _fetched(worker),
        )
    return table


def _staleness(worker: WorkerResult) -> str:
    stale = worker.staleness
    return f"{stale.mean:.2f} / {stale.p95:g} / {stale.max}" if stale else "-"


def _fetched(worker: WorkerResult) -> str:
    return f"{fmt.number(worker.fetched_mb)}, {fmt.number(worker.fetched_mb / max(1, worker.steps))}"


def _hosts(result: Result) -> Table:
    table = plain_table(
        "host", "tasks", "cores mean", "cores max", "busiest core", "memory MB", "external in / out MB/s",
        "loopback MB/s", "disk read / write MB",
    )  # fmt: skip
    align_right(table, "cores mean", "cores max", "busiest core", "memory MB", "loopback MB/s")
    for host in result.hosts:
        table.add_row(
            host.host,
            " ".join(host.tasks),
            fmt.number(host.cpu_cores_mean),
            fmt.number(host.cpu_cores_max),
            f"{host.busiest_core_max:.0%}",
            fmt.number(host.memory_mb_max),
            f"{fmt.number(host.external.rx_mb_s_mean)} / {fmt.number(host.external.tx_mb_s_mean)}",
            fmt.number(host.loopback.rx_mb_s_mean),
            f"{fmt.number(host.disk.read_mb)} / {fmt.number(host.disk.write_mb)}",
        )
    return table


def _closing(result: Result) -> list[RenderableType]:
    verdict = result.verdict
    lines: list[RenderableType] = [
        Text.assemble(("verdict  ", "dim"), (verdict.cause, "bold"), _share(verdict)),
        *[Text(f"         {line}") for line in verdict.evidence],
        *_second(verdict),
        *[Text(f"         try {line}") for line in verdict.remedy],
    ]  # fmt: skip
    lines += [Text(f"incident {incident.t_s:.2f} s: {incident.what}", style="red") for incident in result.incidents]
    lines += [Text(f"note     {note}", style="dim") for note in _notes(result)]
    return lines


def _second(verdict: Verdict) -> list[Text]:
    """What would set the pace if the first cause were gone; of something unclear it is told already."""
    other = verdict.runner_up
    if other is None or not verdict.where:
        return []
    return [Text(f"         next: {other.cause}, {other.share:.0%}: {other.where}")]


def _share(verdict: Verdict) -> str:
    if not verdict.where:
        return ""
    return f", {verdict.share:.0%} of the time: {verdict.where} (confidence {verdict.confidence})"


def _notes(result: Result) -> list[str]:
    """What a reader must know before believing the figures."""
    notes = []
    if any("machine" in host.scope.get("network", "") for host in result.hosts):
        notes.append("all hosts share this machine: network figures are the machine's, not a host's")
    if result.other_cores_mean > NOTABLE_CORES:
        notes.append(f"other programs used {result.other_cores_mean:.1f} cores of this machine meanwhile")
    if any(fault.at_s is not None for fault in result.faults):
        notes.append("it was disturbed on purpose: pace and verdict are those of a disturbed run")
    if result.traced_steps:
        notes.append(
            f"a step is one call of the framework here: its phases are divided as in {result.traced_steps} traces"
        )
    if 0 < result.train_s < _SHORT_S:
        notes.append(f"{result.train_s:.2f} s of training are too short to judge hosts by")
    return notes
