"""A run while it goes on: a picture on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline import units
from paceline.control.progress import progress as shares
from paceline.control.run_controller import Watch
from paceline.control.run_state import RunState
from paceline.plan.place import RunPlan

_REFRESH_S = 0.25
_PLAIN_EVERY_S = 5.0
_BAR_CELLS = 24
_PHASE_COLOURS = {
    # Okabe-Ito, told apart by the colour-blind too.
    "data": "#E69F00",
    "pull": "#56B4E9",
    "compute": "#009E73",
    "push": "#0072B2",
    "wait": "#999999",
    "eval": "#CC79A7",
    "checkpoint": "#F0E442",
    "fused": "#009E73",
}


@contextmanager
def show(console: Console, plan: RunPlan, number: int, of: int) -> Iterator[Watch]:
    """The right kind of view for this console."""
    title = _title(plan, number, of)
    if not console.is_terminal:
        console.print(title, highlight=False, markup=False, soft_wrap=True)
        yield _plain(console)
        return
    with Live(Text(title), console=console, refresh_per_second=1 / _REFRESH_S, transient=True) as live:
        shown = 0.0

        def watch(moment: RunState) -> None:
            nonlocal shown
            if time.monotonic() - shown >= _REFRESH_S:
                shown = time.monotonic()
                live.update(picture(title, moment))

        yield watch


def picture(title: str, moment: RunState) -> Group:
    return Group(Text(title, style="bold"), progress(moment), workers(moment), hosts(moment))


def progress(moment: RunState) -> Table:
    done = max(shares(moment).values(), default=0.0)
    table = Table.grid(padding=(0, 1))
    table.add_row(ProgressBar(total=1.0, completed=done, width=40), Text(_words(moment)))
    return table


def workers(moment: RunState) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    result = moment.plan.step_gives
    for name in ("worker", "host", "steps", "steps/s", result, "where its time goes"):
        table.add_column(name, justify="right" if name in ("steps", "steps/s", result) else "left")
    for worker in moment.workers.values():
        pace, loss = units.short(worker.steps_per_s), f"{worker.loss:.4f}" if worker.steps else "-"
        table.add_row(worker.task, worker.host, f"{worker.steps:,}", pace, loss, _phase_bar(worker.phases))
    return table


def hosts(moment: RunState) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("host", "cores", "memory MB", "external MB/s", "loopback MB/s"):
        table.add_column(name, justify="left" if name == "host" else "right")
    for host in moment.hosts.values():
        figures = (host.cpu_cores, host.memory_mb, host.external_mb_s, host.loopback_mb_s)
        table.add_row(host.host, *map(units.short, figures))
    return table


def _phase_bar(phases: dict[str, float]) -> Text:
    bar = Text()
    for phase, share in phases.items():
        bar.append("█" * round(share * _BAR_CELLS), style=_PHASE_COLOURS.get(phase, "white"))
    top = sorted(phases.items(), key=lambda item: -item[1])[:3]
    return bar.append(" " + ", ".join(f"{phase} {share:.0%}" for phase, share in top))


def _words(moment: RunState) -> str:
    """How far the run is, and what it is on its way to."""
    if moment.opened_ns is None:
        return moment.stage
    parts = [f"update {moment.update:,}", f"{units.short(moment.updates_per_s)}/s", f"{moment.elapsed_s:.1f} s"]
    if limit := moment.plan.update_limit:
        parts[0] += f" of {limit:,}"
    if moment.evaluation:
        _, loss, accuracy = moment.evaluation
        parts.append(f"test loss {loss:.4f}" + ("" if isnan(accuracy) else f", accuracy {accuracy * 100:.2f} %"))
    parts += [f"until {rule}" for rule in moment.plan.spec.stop if rule.kind in ("loss", "accuracy")]
    return " · ".join(parts)


def _plain(console: Console) -> Watch:
    said = time.monotonic()

    def watch(moment: RunState) -> None:
        nonlocal said
        if time.monotonic() - said < _PLAIN_EVERY_S:
            return
        said = time.monotonic()
        paces = " ".join(f"{worker.task} {units.short(worker.steps_per_s)}/s" for worker in moment.workers.values())
        line = f"  {_words(moment)}" + (f" · {paces}" if moment.update else "")
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    return watch


def _title(plan: RunPlan, number: int, of: int) -> str:
    spec = plan.spec
    head = f"[{number}/{of}] " if of > 1 else ""
    where = f"layout '{plan.layout}' on {spec.hosts}" + (f", link {spec.link}" if spec.link else "")
    where += f", cpus {spec.cpus}" if spec.cpus else ""
    rules = " or ".join(map(str, spec.stop))
    where += "".join(f" · {name} {value:g}" for name, value in (("lr", spec.lr), ("threads", spec.threads)) if value)
    where += f" · batch {spec.batch}" if plan.trains else ""
    return f"{head}{plan.title} · {spec.engine} · {spec.strategy} · {where} · until {rules}"
