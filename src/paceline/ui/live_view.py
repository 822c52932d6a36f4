"""What the live page shows of a run in progress, as plain data."""

import math
from typing import Any

import msgspec

from paceline.control.step_rate import SHIPMENT_S
from paceline.page.blocks import Mark
from paceline.present.bottleneck import bottleneck_location, bottleneck_summary
from paceline.recording.recorder import clock_ns
from paceline.report.why import why_block
from paceline.spec.stop import StopRule
from paceline.store.events import Event
from paceline.store.verdict import Verdict
from paceline.ui.live_run import LiveRun
from paceline.ui.live_worker import LiveWorker


class Bottleneck:
    """The current bottleneck, and since when it is the current one."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] | None = None
        self._place = ""
        self._since_s = 0.0

    def set(self, verdict: Verdict | None, now_s: float) -> None:
        if verdict is None:
            return
        place = bottleneck_location(verdict.cause, verdict.where)
        if place != self._place:
            self._place, self._since_s = place, now_s
        summary = bottleneck_summary(verdict)
        why = why_block("Bottleneck of the last seconds", summary, verdict)
        self.shown = {
            "summary": summary,
            "since_s": round(self._since_s, 1),
            "why": msgspec.to_builtins(why),
        }


def live_view(run: LiveRun, bottleneck: Bottleneck, first: int) -> dict[str, Any]:
    """The state of the run now, and its history from interval number `first` on."""
    elapsed_s = run.now_s
    rates = {task: worker.rate.per_s(clock_ns()) for task, worker in run.workers.items()}
    rules = run.header.spec.stop if run.header else ()
    return {
        "stage": "ended" if run.ended else "training" if run.opened_s is not None else "starting",
        "elapsed_s": round(elapsed_s, 2),
        "update": run.update,
        "update_limit": run.header.update_limit if run.header else None,
        "updates_per_s": _short(run.updates_per_s),
        "examples_per_s": _short(sum(rates.values()) * _batch(run)),
        "progress": {str(rule): round(_progress(rule, run, elapsed_s), 4) for rule in rules},
        "left_s": _left_s(run, elapsed_s),
        "left_at_most": any(rule.is_target for rule in rules),
        "waiting": _waiting(run),
        "workers": [_worker(run, worker, rates[task]) for task, worker in run.workers.items()],
        "hosts": [{"host": name, **host.now(), "note": _host_note(run, name)} for name, host in run.hosts.items()],
        "marks": [msgspec.to_builtins(mark) | {"lasts": _lasts(mark)} for mark in run.marks[-60:]],
        "evaluations": run.evaluations,
        "bottleneck": bottleneck.shown,
        "history": _history(run, first),
    }


def about(run: LiveRun) -> dict[str, Any]:
    """What does not change during a run: its configuration, and the limits that charts show."""
    header = run.header
    if header is None:
        return {}
    spec = header.spec
    limits = {host: round(limit.link_bits_s / 8e6, 4) for host, limit in header.limits.items() if limit.link_bits_s} | {
        str(event["host"]): event["tx_mb_s"] for event in run.events if event["event"] == "link"
    }
    cores = {str(event["host"]): event.get("cores") for event in run.events if event["event"] == "joined"}
    title = f"{spec.workload}:{header.size}" if header.size else spec.workload
    rows = [
        ("workload", title),
        ("engine", spec.engine),
        ("strategy", spec.strategy),
        ("layout", f"{header.layout} on {spec.hosts} hosts"),
        ("batch", f"batch {spec.batch}" if header.trains else ""),
        ("stop", f"until {' or '.join(map(str, spec.stop)) or 'it ends'}"),
        ("link", str(spec.link or "no limit")),
        ("cpus", str(spec.cpus or "no limit")),
        ("data", header.data),
        ("versions", ", ".join(f"{name} {version}" for name, version in header.versions.items() if version)),
        ("started", header.started_at),
    ]
    return {
        "title": title,
        "facts": [row for row in rows if row[1]],
        "links": limits,
        "cores": cores,
        "one_machine": header.host_kind.shares_one_machine,
        "tasks": [place.task for place in header.places],
    }


def _worker(run: LiveRun, worker: LiveWorker, rate: float) -> dict[str, Any]:
    note = _worker_note(run, worker)
    return {
        "task": worker.task,
        "host": worker.host,
        "steps": worker.steps,
        "rate": _short(rate),
        "loss": None if math.isnan(worker.loss) else _short(worker.loss),
        "phases": {name: round(share, 4) for name, share in worker.phases.items() if share >= 0.0005},
        "note": note,
    }


def _worker_note(run: LiveRun, worker: LiveWorker) -> str:
    """Why a worker is not as fast as usual; else an empty text."""
    notes = _faults_of(run, worker.task, worker.host)
    stalled_s = worker.rate.stalled_s(clock_ns()) if run.opened_s is not None and not run.ended else None
    if worker.condition:
        notes.insert(0, worker.condition)
    elif stalled_s and worker.steps:
        notes.insert(0, f"no step for {stalled_s:.0f} s")
    elif not worker.steps and run.opened_s is not None and run.now_s > 2 * SHIPMENT_S:
        notes.insert(0, "no step yet")
    return ", ".join(notes)


def _host_note(run: LiveRun, host: str) -> str:
    notes = _faults_of(run, host)
    silent_s = run.hosts[host].silent_s(run.clock_s) if run.opened_s is not None and not run.ended else None
    if silent_s:
        notes.insert(0, f"no sample for {silent_s:.0f} s")
    return ", ".join(notes)


def _lasts(mark: Mark) -> bool:
    return mark.kind == "fault" and mark.until is None


def _faults_of(run: LiveRun, *targets: str) -> list[str]:
    """The kinds of the faults that affect these tasks or hosts now."""
    words = [mark.text.split() for mark in run.marks if _lasts(mark)]
    return [f"fault: {parts[0]}" for parts in words if len(parts) > 1 and parts[1] in targets]


def _batch(run: LiveRun) -> int:
    return run.header.spec.batch if run.header and run.header.trains else 0


def _progress(rule: StopRule, run: LiveRun, elapsed_s: float) -> float:
    _, _, loss, accuracy = run.evaluations[-1] if run.evaluations else (0.0, 0, math.inf, 0.0)
    limit = run.header.update_limit if run.header else None
    match rule.kind:
        case "steps":
            share = run.update / rule.value
        case "epochs":
            share = run.update / limit if limit else 0.0
        case "seconds":
            share = elapsed_s / rule.value
        case "loss":
            share = 1.0 if loss <= rule.value else rule.value / loss
        case "accuracy":
            share = accuracy / rule.value
        case _:
            share = 0.0
    return min(1.0, share) if share >= 0 else 0.0


def _left_s(run: LiveRun, elapsed_s: float) -> float | None:
    """Seconds until the first of the rules is met that allow an estimate; None without one."""
    if run.header is None or run.opened_s is None or run.ended:
        return None
    estimates = [max(0.0, rule.value - elapsed_s) for rule in run.header.spec.stop if rule.kind == "seconds"]
    rate = run.update / elapsed_s if elapsed_s > 0 else 0.0
    if run.header.update_limit and rate > 0:
        estimates.append(max(0.0, run.header.update_limit - run.update) / rate)
    return round(min(estimates), 1) if estimates else None


def _waiting(run: LiveRun) -> str:
    """What the run waits for before training begins, or while tasks restart."""
    if run.header is None:
        return "waiting for the plan of the run"
    if run.opened_s is not None:
        restarting = [task for task, worker in run.workers.items() if worker.condition == "restarting"]
        return f"restarting {', '.join(restarting)}" if restarting else ""
    tasks = [place.task for place in run.header.places]
    for event, names, what in (
        ("joined", [*run.hosts], "hosts to join"),
        ("started", tasks, "tasks to start"),
        ("ready", tasks, "tasks to import the engine, open the data, connect and compile"),
    ):
        done = {_name(one, event) for one in run.events if one["event"] == event}
        missing = [name for name in names if name not in done]
        if missing:
            more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
            return f"waiting for {what}: {', '.join(missing[:6])}{more}"
    return "waiting for the barrier"


def _name(event: Event, kind: str) -> str:
    return str(event.get("host" if kind == "joined" else "task"))


def _history(run: LiveRun, first: int) -> dict[str, Any]:
    """Columns of all series from an interval on; the last interval may still change."""
    width_s, last = run.intervals.width_s, run.intervals.last
    numbers = range(first, last + 1)
    workers = max(1, len(run.workers)) if run.header and run.header.strategy.synchronous else 1
    # The last interval is not over: its rate would be too low.
    updates = [_short(run.step_counts.values.get(n, 0) / workers / width_s) if n < last else None for n in numbers]
    losses = [_mean(run.losses.values.get(number)) for number in numbers]
    return {
        "first": first,
        "width_s": width_s,
        "t": [round((number + 0.5) * width_s, 3) for number in numbers],
        "updates": updates,
        "loss": losses,
        "hosts": {name: host.history(first, last) for name, host in run.hosts.items()},
    }


def _mean(sum_and_count: tuple[float, int] | None) -> float | None:
    return _short(sum_and_count[0] / sum_and_count[1]) if sum_and_count else None


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
