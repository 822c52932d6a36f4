"""Shows a run in progress: a live view on a terminal, a plain line every few seconds elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.control.progress import progress as progress_by_rule
from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan
from paceline.present.colours import PHASE_COLOURS
from paceline.present.numbers import MISSING, accuracy, number, percent

_REFRESH_S = 0.25
_PLAIN_EVERY_S = 5.0
"""Seconds between plain lines."""
_BAR_CELLS = 24
"""Characters of a full phase bar."""
_SHOWN_PHASES = 3


@contextmanager
def show(console: Console, plan: RunPlan, number: int, total: int) -> Iterator[StateListener]:
    """The view of run `number` of `total` that suits the console: call it with the state of the run."""
    title = _title(plan, number, total)
    if not console.is_terminal:
        console.print(title, highlight=False, markup=False, soft_wrap=True)
        yield _plain(console)
        return
    with Live(Text(title), console=console, refresh_per_second=1 / _REFRESH_S, transient=True) as live:
        shown = 0.0

        def watch(state: RunState) -> None:
            nonlocal shown
            if time.monotonic() - shown >= _REFRESH_S:
                shown = time.monotonic()
                live.update(live_view(title, state))

        yield watch


def live_view(title: str, state: RunState) -> Group:
    return Group(Text(title, style="bold"), progress(state), workers(state), hosts(state))


def progress(state: RunState) -> Table:
    done = max(progress_by_rule(state).values(), default=0.0)
    table = Table.grid(padding=(0, 1))
    table.add_row(ProgressBar(total=1.0, completed=done, width=40), Text(_progress_text(state)))
    return table


def workers(state: RunState) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    step_result = state.plan.step_gives
    for name in ("worker", "host", "steps", "steps/s", step_result, "time by phase"):
        table.add_column(name, justify="right" if name in ("steps", "steps/s", step_result) else "left")
    for worker in state.workers.values():
        rate, loss = number(worker.steps_per_s), f"{worker.loss:.4f}" if worker.steps else MISSING
        table.add_row(worker.task, worker.host, f"{worker.steps:,}", rate, loss, _phase_bar(worker.phases))
    return table


def hosts(state: RunState) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("host", "cores used", "memory (MB)", "network (MB/s)", "loopback (MB/s)"):
        table.add_column(name, justify="left" if name == "host" else "right")
    for host in state.hosts.values():
        values = (host.cpu_cores, host.memory_mb, host.external_mb_s, host.loopback_mb_s)
        table.add_row(host.host, *map(number, values))
    return table


def _phase_bar(phases: dict[str, float]) -> Text:
    bar = Text()
    for phase, share in phases.items():
        bar.append("█" * round(share * _BAR_CELLS), style=PHASE_COLOURS.get(phase, "white"))
    top = sorted(phases.items(), key=lambda item: -item[1])[:_SHOWN_PHASES]
    return bar.append(" " + ", ".join(f"{phase} {percent(share)}" for phase, share in top))


def _progress_text(state: RunState) -> str:
    """Updates, time and last evaluation so far, and the loss or accuracy to reach."""
    if state.opened_ns is None:
        return state.stage
    parts = [f"update {state.update:,}", f"{number(state.updates_per_s)}/s", f"{state.elapsed_s:.1f} s"]
    if limit := state.plan.update_limit:
        parts[0] += f" of {limit:,}"
    if state.evaluation:
        _, loss, share = state.evaluation
        parts.append(f"test loss {loss:.4f}" + ("" if isnan(share) else f", accuracy {accuracy(share)}"))
    parts += [f"until {rule}" for rule in state.plan.spec.stop if rule.kind in ("loss", "accuracy")]
    return " · ".join(parts)


def _plain(console: Console) -> StateListener:
    printed = time.monotonic()

    def watch(state: RunState) -> None:
        nonlocal printed
        if time.monotonic() - printed < _PLAIN_EVERY_S:
            return
        printed = time.monotonic()
        rates = " ".join(f"{worker.task} {number(worker.steps_per_s)}/s" for worker in state.workers.values())
        line = f"  {_progress_text(state)}" + (f" · {rates}" if state.update else "")
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    return watch


def _title(plan: RunPlan, number: int, total: int) -> str:
    spec = plan.spec
    head = f"[{number}/{total}] " if total > 1 else ""
    where = f"layout '{plan.layout}' on {spec.hosts} hosts" + (f", link {spec.link}" if spec.link else "")
    where += f", cpus {spec.cpus}" if spec.cpus else ""
    rules = " or ".join(map(str, spec.stop))
    where += "".join(f" · {name} {value:g}" for name, value in (("lr", spec.lr), ("threads", spec.threads)) if value)
    where += f" · batch {spec.batch}" if plan.trains else ""
    return f"{head}{plan.title} · {spec.engine} · {spec.strategy} · {where} · until {rules}"
