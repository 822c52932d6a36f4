"""The live view of a run as lines of text that fit a terminal of any size. Pure: it reads only the state of the run.

From top to bottom: what runs, how far it is, its throughput, faults and incidents, then workers, hosts and servers. In
a small terminal, these become grids of short cells; none of the three groups is left out.
"""

import shlex
from collections.abc import Sequence
from math import isnan

from rich.text import Text

from paceline.control.progress import progress as progress_by_rule
from paceline.control.progress import time_left_s
from paceline.control.run_state import CurrentBottleneck, HostState, Mark, RunState, WaitingFor, WorkerState
from paceline.control.unreached_targets import is_at_plateau
from paceline.plan.place import RunPlan
from paceline.present.bottleneck import bottleneck_location
from paceline.present.colours import FAULT_COLOUR, INCIDENT_COLOUR, PHASE_COLOURS
from paceline.present.numbers import MISSING, accuracy, count, duration, loss, number, percent, rate
from paceline.spec.script import arguments
from paceline.terminal.sections import Section, aligned, fit, fitted
from paceline.terminal.sparkline import sparklines
from paceline.units import duration_text

_BAR_CELLS = 24
"""Characters of a full phase bar and of the progress bar."""
_SHOWN_PHASES = 3
_MAX_LAYOUT_WORDS = 8
"""A layout with more hosts is described by its numbers of tasks and hosts."""
_MAX_MARKS = 4
_MAX_MISSING = 6
_TALL = 30
"""From this many lines on, throughput and loss have a line each."""
_ALERT = f"bold {INCIDENT_COLOUR}"
_ACTIVITIES = {"eval": "evaluating", "checkpoint": "writing a checkpoint", "wait": "waiting for the other workers"}
"""What a worker may do between steps. It is shown only if it takes long."""


def view_lines(
    state: RunState, number_: int, total: int, width: int, height: int, sweep_left_s: float | None = None
) -> list[Text]:
    """The view of run `number_` of `total` in at most `height` lines of at most `width` characters.

    `sweep_left_s`: the estimated time until all runs are done.
    """
    head = [
        Text(" · ".join(run_titles(state.plan, number_, total, sweep_left_s)), style="bold"),
        Text(" · ".join(setup_titles(state.plan)), style="dim"),
        _progress_bar(state),
        Text(" · ".join(progress_texts(state))),
    ]
    head += sparklines(state, width, one_line=height < _TALL)
    if state.bottleneck and state.stage == "training":
        head.append(_bottleneck(state.bottleneck))
    if len(state.marks) > _MAX_MARKS:
        head.append(Text(f"faults and incidents: {len(state.marks)}, the last {_MAX_MARKS}:", style="dim"))
    head += [mark_line(mark) for mark in state.marks[-_MAX_MARKS:]]
    if any(worker.phases for worker in state.workers.values()):
        head.append(_legend(state, width))
    sections = [_workers(state, width), _hosts(state), *([_servers(state)] if state.servers else [])]
    lines = [fitted(line, width) for line in head]
    # Faults and incidents go before a group does: each group keeps at least two lines.
    lines = lines[: max(1, height - 2 * len(sections))]
    return [*lines, *fit(sections, width, height - len(lines))][:height]


def _bottleneck(current: CurrentBottleneck) -> Text:
    named = bottleneck_location(current.cause, current.where)
    since = f", since {duration(current.since_s)} of training" if current.since_s else ""
    return Text(f"bottleneck now: {named} ({percent(current.share)}{since})")


def run_titles(plan: RunPlan, number_: int, total: int, sweep_left_s: float | None = None) -> list[str]:
    spec = plan.spec
    all_done = [] if sweep_left_s is None else [f"all done in about {duration(sweep_left_s)}"]
    head = [f"run {number_} of {total}", *all_done] if total > 1 else []
    if plan.is_script:
        return [*head, shlex.join([plan.title, *arguments(spec.script, spec.param)])]
    batch = [f"batch {spec.batch}"] if plan.trains else []
    more = [f"{name} {value:g}" for name, value in (("lr", spec.lr), ("threads", spec.threads)) if value]
    return [*head, plan.title, spec.engine, spec.strategy, *batch, *more]


def setup_titles(plan: RunPlan) -> list[str]:
    spec, layout = plan.spec, plan.layout
    servers = f"{count(layout.servers, 'server')}, " if layout.servers else ""
    tasks = f"{servers}{count(layout.workers, 'worker')} on {len(layout.hosts)} {spec.hosts} hosts"
    limits = [f"{name} {value}" for name, value in (("link", spec.link), ("cpus", spec.cpus)) if value]
    where = f"layout '{layout}' on {spec.hosts} hosts" if len(layout.hosts) <= _MAX_LAYOUT_WORDS else tasks
    time_limit = [f"time limit {duration_text(plan.time_limit_s)}"] if plan.time_limit_s else []
    until = f"until {' or '.join(map(str, spec.stop)) or 'it ends'}"
    return [until, *time_limit, where, *limits]


def progress_texts(state: RunState) -> list[str]:
    """Updates and last evaluation so far; before and after training, what the run waits for."""
    texts = []
    if state.opened_ns is not None:
        limit = f" of {state.plan.update_limit:,}" if state.plan.update_limit else ""
        texts = [f"update {state.update:,}{limit}", f"{rate(state.updates_per_s)}/s"]
    if state.waiting_for:
        texts.append(waiting_text(state.waiting_for))
    elif state.opened_ns is None:
        texts.append("waiting for the hosts")
    if state.evaluation and not isnan(state.evaluation[1]):
        _, test_loss, share = state.evaluation
        texts.append(f"test loss {loss(test_loss)}" + ("" if isnan(share) else f", accuracy {accuracy(share)}"))
    if is_at_plateau(state):
        texts.append(f"no improvement for {state.evaluations_without_improvement:,} evaluations")
    return texts


def time_texts(state: RunState) -> list[str]:
    """Seconds so far and, if the stop rules allow an estimate, the seconds left."""
    if state.opened_ns is None:
        return [f"starting, {duration(state.age_s)}"]
    left_s, spent = time_left_s(state), f"{state.elapsed_s:.1f} s"
    if left_s is None or state.stage != "training":
        return [spent]
    open_end = any(rule.is_target for rule in state.plan.spec.stop)
    return [spent, f"{'at most' if open_end else 'about'} {duration(left_s)} left"]


def waiting_text(waiting: WaitingFor) -> str:
    if not waiting.missing:
        return f"waiting for {waiting.what}"
    # The number comes first: a narrow terminal has no room for all names.
    number_ = f" ({len(waiting.missing)})" if len(waiting.missing) > 1 else ""
    return f"waiting for {waiting.what}{number_}: {_some(waiting.missing)}"


def mark_line(mark: Mark) -> Text:
    """When and what: `2.0–5.0 s  fault: freeze w1 for 3s at 2s`."""
    until = f"–{mark.over_s:.1f}" if mark.over_s is not None and mark.over_s > mark.at_s else ""
    line = Text(f"{mark.at_s:.1f}{until} s  ", style="dim")
    style = FAULT_COLOUR if mark.kind == "fault" else INCIDENT_COLOUR
    return line.append(f"{mark.kind}: {_one_line(mark.what)}", style=f"bold {style}" if mark.lasts else style)


def worker_note(state: RunState, worker: WorkerState) -> str:
    """Why a worker is not as fast as usual, if it is known; else an empty text."""
    notes, condition = _faults_of(state, worker.task, worker.host), worker.condition
    if condition and condition not in _ACTIVITIES:
        notes.insert(0, condition)
    elif stalled_s := state.stalled_s(worker.task):
        notes.insert(0, f"no step for {stalled_s:.0f} s" + (f": {_ACTIVITIES[condition]}" if condition else ""))
    return ", ".join(notes)


def _progress_bar(state: RunState) -> Text:
    done = max(progress_by_rule(state).values(), default=0.0)
    filled = round(done * _BAR_CELLS)
    bar = Text("━" * filled, style="green").append("─" * (_BAR_CELLS - filled), style="bright_black")
    texts = [percent(done), *time_texts(state)] if state.opened_ns is not None else time_texts(state)
    return bar.append("  " + " · ".join(texts), style="not dim default")


def _legend(state: RunState, width: int) -> Text:
    """The colour of each phase with its share of the time of all workers, the share only if there is room for it."""
    workers = [worker.phases for worker in state.workers.values() if worker.phases]
    names = list(dict.fromkeys((*state.plan.strategy.phases, *(name for phases in workers for name in phases))))
    shares = {name: sum(phases.get(name, 0.0) for phases in workers) / len(workers) for name in names}
    with_shares = _legend_line({name: f" {percent(share)}" for name, share in shares.items()})
    return with_shares if with_shares.cell_len <= width else _legend_line(dict.fromkeys(names, ""))


def _legend_line(texts: dict[str, str]) -> Text:
    entries = [
        Text("■ ", style=PHASE_COLOURS.get(name, "white")).append(name + text, style="not dim default")
        for name, text in texts.items()
    ]
    return Text("  ").join(entries)


def _workers(state: RunState, width: int) -> Section:
    step_gives, tasks = state.plan.step_gives, list(state.workers)
    notes = {task: worker_note(state, worker) for task, worker in state.workers.items()}
    rates = {task: state.steps_per_s(task) for task in tasks}
    shown = {task: Text(rate(rates[task]), style=_ALERT if notes[task] else "") for task in tasks}
    rows = [
        [
            Text(task),
            Text(worker.host),
            Text(f"{worker.steps:,}"),
            shown[task],
            Text(loss(worker.loss) if worker.steps else MISSING),
            Text(notes[task], style=_ALERT) if notes[task] else _phase_bar(worker.phases, width),
        ]
        for task, worker in state.workers.items()
    ]
    slowest, fastest = min(tasks, key=rates.__getitem__), max(tasks, key=rates.__getitem__)
    extremes = [
        Text(f"{which} {task} {rate(rates[task])}") for which, task in (("slowest", slowest), ("fastest", fastest))
    ]
    bars = [_phase_bar(state.workers[task].phases, width) for task in (slowest, fastest)]
    return Section(
        columns=("worker", "host", "steps", "steps/s", step_gives, "time by phase"),
        left=frozenset(("worker", "host", "time by phase")),
        rows=rows,
        grid_title=" · ".join(["workers: steps/s", *(text.plain for text in extremes)]),
        cells=[Text(f"{task} ").append_text(shown[task]) for task in tasks],
        order=sorted(range(len(tasks)), key=lambda index: (not notes[tasks[index]], rates[tasks[index]])),
        highlights=aligned([[text, bar] for text, bar in zip(extremes, bars, strict=True)], [True, True]),
        notes=_joined_notes(notes),
    )


def _joined_notes(notes: dict[str, str]) -> list[Text]:
    """The notes that are not empty, one for all tasks or hosts with the same: `w1, w3: no step for 7 s`."""
    names: dict[str, list[str]] = {}
    for name, note in notes.items():
        if note:
            names.setdefault(note, []).append(name)
    return [Text(f"{_some(concerned)}: {note}", style=_ALERT) for note, concerned in names.items()]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MAX_MISSING
    return ", ".join(names[:_MAX_MISSING]) + (f" and {more} more" if more > 0 else "")


def _phase_bar(phases: dict[str, float], width: int) -> Text:
    bar, until = Text(), 0.0
    for phase, share in phases.items():
        # Both ends are rounded, not the length, so that every bar has the same length.
        begin, until = until, until + share
        cells = round(until * _BAR_CELLS) - round(begin * _BAR_CELLS)
        bar.append("█" * cells, style=PHASE_COLOURS.get(phase, "white"))
    shown = _SHOWN_PHASES if width >= 110 else 1
    top = sorted(phases.items(), key=lambda item: -item[1])[:shown]
    return bar.append(" " + ", ".join(f"{phase} {percent(share)}" for phase, share in top))


def _servers(state: RunState) -> Section:
    servers = list(state.servers.values())
    notes = {server.task: ", ".join(_faults_of(state, server.task, server.host)) for server in servers}
    return Section(
        columns=("server", "host", "cores used", "memory (MB)", ""),
        left=frozenset(("server", "host")),
        rows=[
            [
                Text(server.task),
                Text(server.host),
                Text(number(server.cpu_cores)),
                Text(number(server.memory_mb)),
                Text(notes[server.task], style=_ALERT),
            ]
            for server in servers
        ],
        grid_title="servers: cores used",
        cells=[Text(f"{server.task} {number(server.cpu_cores)}") for server in servers],
        order=sorted(range(len(servers)), key=lambda i: (not notes[servers[i].task], -servers[i].cpu_cores)),
        notes=_joined_notes(notes),
    )


def _hosts(state: RunState) -> Section:
    second = "network (MB/s)" if state.plan.has_links else "memory (MB)"
    hosts = list(state.hosts.values())
    notes = {host.host: _host_note(state, host.host) for host in hosts}
    cells = [Text(f"{host.host} {number(host.cpu_cores)}", style=_ALERT if notes[host.host] else "") for host in hosts]
    return Section(
        columns=("host", "cores used", "memory (MB)", "network (MB/s)", "loopback (MB/s)", ""),
        left=frozenset(("host",)),
        rows=[_host_row(state, host) for host in hosts],
        grid_title=f"hosts: cores used, {second}",
        cells=[
            cell + Text(f" {number(host.external_mb_s if state.plan.has_links else host.memory_mb)}", style="dim")
            for cell, host in zip(cells, hosts, strict=True)
        ],
        short_cells=cells,
        short_title="hosts: cores used",
        order=sorted(range(len(hosts)), key=lambda index: (not notes[hosts[index].host], -hosts[index].cpu_cores)),
        notes=_joined_notes(notes),
    )


def _host_row(state: RunState, host: HostState) -> list[Text]:
    values = (host.cpu_cores, host.memory_mb, host.external_mb_s, host.loopback_mb_s)
    return [Text(host.host), *(Text(number(value)) for value in values), Text(_host_note(state, host.host), _ALERT)]


def _host_note(state: RunState, name: str) -> str:
    notes = _faults_of(state, name)
    if silent_s := state.silent_s(name):
        notes.insert(0, f"no sample for {silent_s:.0f} s")
    return ", ".join(notes)


def _faults_of(state: RunState, *targets: str) -> list[str]:
    """The kinds of the faults that affect these tasks or hosts now."""
    return [f"fault: {mark.what.split()[0]}" for mark in state.marks if mark.lasts and mark.target in targets]


def _one_line(text: str) -> str:
    """The text as one line of printable characters."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
