"""Results as tables for a terminal."""

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from paceline.analyze.repeats import Group, group_repeats, setting, varied
from paceline.store.result import Result
from paceline.ui import format as fmt

_ALWAYS_SHOWN = ("engine", "strategy", "layout", "batch")
_STATUS_STYLE = {"ok": "green", "failed": "bold red", "diverged": "bold magenta", "aborted": "yellow"}


def run_list(results: Sequence[Result]) -> Table:
    """One row a run."""
    table = _table(
        "run", "workload", "engine", "strategy", "layout", "batch", "status", "time", "updates/s", "accuracy"
    )
    _right(table, "batch", "time", "updates/s", "accuracy")
    for result in results:
        table.add_row(
            result.run,
            result.workload,
            result.engine,
            result.strategy,
            result.layout,
            str(result.batch),
            _status(result),
            fmt.seconds(result.train_s),
            fmt.number(result.updates_per_s),
            fmt.percent(result.final.accuracy),
        )
    return table


def comparison(results: Sequence[Result]) -> Table:
    """One row for all repeats of a configuration, as mean ± standard deviation."""
    groups = group_repeats(results)
    also = [name for name in varied(groups) if name not in _ALWAYS_SHOWN]
    table = _table(
        "engine", "strategy", "layout", "batch", *also, "runs", "time s", "updates/s", "examples/s", "loss",
        "accuracy %", "to target s", "steps per worker",
    )  # fmt: skip
    _right(table, "batch", "runs", "time s", "updates/s", "examples/s", "loss", "accuracy %", "to target s")
    for group in groups:
        first = group.first
        table.add_row(
            first.engine,
            first.strategy,
            first.layout,
            str(first.batch),
            *[setting(first, name) for name in also],
            _counts(group),
            fmt.spread(group.spread(lambda r: r.train_s)),
            fmt.spread(group.spread(lambda r: r.updates_per_s)),
            fmt.spread(group.spread(lambda r: r.examples_per_s)),
            fmt.spread(group.spread(lambda r: r.final.loss), digits=4),
            fmt.spread(group.spread(lambda r: r.final.accuracy), scale=100, digits=2),
            fmt.spread(group.spread(_to_target)),
            fmt.steps_per_worker(first),
        )
    return table


def details(result: Result) -> RenderableType:
    """Everything about one run."""
    return Stack(_head(result), Text(), _workers(result), Text(), _hosts(result), Text(), *_closing(result))


def _head(result: Result) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    reached = result.reached
    asked = {k: v for k, v in result.settings.items() if v is not None and k not in ("stop", "record", "sample_hz")}
    rows: list[tuple[str, RenderableType]] = [
        ("run", f"{result.run}   ({result.started_at})"),
        ("status", _status(result, with_reason=True)),
        (
            "what",
            f"{result.workload} · {result.engine} · {result.strategy} · layout '{result.layout}' "
            f"on {result.hosts_kind} · batch {result.batch} · seed {result.seed} · repeat {result.repeat}",
        ),
        ("settings", ", ".join(f"{k} {v}" for k, v in asked.items()) or "defaults"),
        ("data", result.data),
        (
            "time",
            f"{fmt.seconds(result.train_s)} training, first step after {fmt.seconds(result.first_step_s)}, "
            f"{fmt.seconds(result.total_s)} in all",
        ),
        (
            "pace",
            f"{result.updates:,} updates at {fmt.number(result.updates_per_s)}/s, "
            f"{result.examples:,} examples at {fmt.number(result.examples_per_s)}/s",
        ),
        ("quality", f"test loss {fmt.loss(result.final.loss)}, accuracy {fmt.percent(result.final.accuracy)}"),
        (
            "reached",
            f"{reached.rule} after {fmt.seconds(reached.at_s)}, {reached.at_update:,} updates" if reached else "-",
        ),
        ("directory", result.dir),
    ]
    for label, value in rows:
        table.add_row(label, Text(value) if isinstance(value, str) else value)
    return table


def _workers(result: Result) -> Table:
    table = _table("worker", "host", "steps", "where its time went", "staleness mean / p95 / max")
    _right(table, "steps")
    for worker in result.workers:
        stale = worker.staleness
        table.add_row(
            worker.task,
            worker.host,
            f"{worker.steps:,}",
            fmt.phase_shares(worker.phases),
            f"{stale.mean:.2f} / {stale.p95:g} / {stale.max}" if stale else "-",
        )
    return table


def _hosts(result: Result) -> Table:
    table = _table(
        "host", "tasks", "cores mean", "cores max", "busiest core", "memory MB", "external in / out MB/s",
        "loopback MB/s", "disk read / write MB",
    )  # fmt: skip
    _right(table, "cores mean", "cores max", "busiest core", "memory MB", "loopback MB/s")
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
        Text.assemble(("verdict  ", "dim"), (verdict.cause, "bold"), f", {verdict.share:.0%} of the time; ",
                      f"most at {verdict.where}" if verdict.where else ""),
        *[Text(f"         {line}") for line in verdict.evidence],
        *[Text(f"         try: {line}") for line in verdict.remedy],
    ]  # fmt: skip
    lines += [Text(f"incident {incident.t_s:.2f} s: {incident.what}", style="red") for incident in result.incidents]
    scopes = {host.scope.get("network") for host in result.hosts if host.scope}
    if any(scope and "machine" in scope for scope in scopes):
        lines.append(
            Text("note     all hosts share this machine: network figures are the machine's, not a host's", style="dim")
        )
    return lines


def _status(result: Result, *, with_reason: bool = False) -> Text:
    text = Text(result.status + (" (tainted)" if result.tainted else ""), style=_STATUS_STYLE[result.status])
    if with_reason and result.reason:
        text.append(f": {result.reason}")
    return text


def _to_target(result: Result) -> float | None:
    is_quality = result.reached and result.reached.rule.split("=")[0] in ("loss", "accuracy")
    return result.reached.at_s if result.reached and is_quality else None


def _counts(group: Group) -> str:
    good, all_ = len(group.ok), len(group.results)
    return str(all_) if good == all_ else f"{good} of {all_} ok"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _right(table: Table, *names: str) -> None:
    for column in table.columns:
        if column.header in names:
            column.justify = "right"
