"""What a reader must know before trusting the numbers of one run."""

from pathlib import Path

from paceline.present.numbers import count, duration
from paceline.present.thresholds import BACKGROUND_LOAD_CORES, SHORT_TRAINING_S
from paceline.store.paths import RunPaths
from paceline.store.result import Incident, Result
from paceline.store.verdict import MemoryGrowth


def run_notes(result: Result) -> list[str]:
    notes = []
    if any("machine" in host.scope.get("network", "") for host in result.hosts):
        notes.append("all hosts share this machine: network values are those of the machine, not of one host")
    cores, host = highest_background_load(result)
    if cores > BACKGROUND_LOAD_CORES:
        notes.append(f"background load: {cores:.1f} cores{f' on {host}' if host else ''}")
    injected_at = [fault.at_s for fault in result.faults if fault.at_s is not None]
    if any(at_s <= result.train_s for at_s in injected_at):
        notes.append("faults were injected; throughput and bottleneck include their effect")
    if any(at_s > result.train_s for at_s in injected_at):
        notes.append("a fault was injected after the last update, so it had no effect on the training")
    if result.traced_steps:
        notes.append(
            f"phase times estimated from {count(result.traced_steps, 'traced step')}; "
            "updates/s and examples/s leave out traced steps and their time, because tracing makes steps slower"
        )
    elif any("fused" in worker.phases for worker in result.workers):
        notes.append("no step was traced, so the phases of steps are not known")
    if result.unrecorded_steps:
        notes.append(
            f"{count(result.unrecorded_steps, 'step')} without a record: the worker was killed after its gradient was "
            "applied and before it had recorded the step"
        )
    notes += [_growth(growth) for growth in result.memory_growth]
    notes += [f"not measured: {what}" for what in result.not_measured]
    if result.details:
        notes.append(f"{result.engine}: " + ", ".join(_detail(*item) for item in result.details.items()))
    notes += result.not_observed
    if 0 < result.train_s < SHORT_TRAINING_S:
        notes.append(f"training took only {result.train_s:.2f} s: too short for reliable host metrics")
    return notes


def incident_text(incident: Incident) -> str:
    """`3.51 s: w1 on h2 was killed by SIGKILL`: seconds of training, as in the table of faults and in charts.

    If these are not known, because training had not begun, it is the time since the start of the run.
    """
    when = f"{incident.t_s:.2f} s after the start" if incident.at_s is None else f"{incident.at_s:.2f} s"
    return f"{when}: {incident.what}"


def _growth(growth: MemoryGrowth) -> str:
    full = (
        f"; at this rate the memory is full after {duration(growth.full_after_s)} more" if growth.full_after_s else ""
    )
    return (
        f"memory of {growth.task} on {growth.host} grows by {growth.mb_per_s:.3g} MB/s, from {growth.from_mb:,.0f} to "
        f"{growth.to_mb:,.0f} MB{full}"
    )


def _detail(name: str, value: str | float) -> str:
    return f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.3g}'}"


def highest_background_load(result: Result) -> tuple[float, str | None]:
    """Cores that other programs used on the machine where they used most, and its host; None if all hosts share it.

    The sum over separate machines would grow with their number, although each of them is idle.
    """
    if result.one_machine or not result.other_cores_by_host:
        return result.other_cores_mean, None
    host = max(result.other_cores_by_host, key=lambda host: result.other_cores_by_host[host])
    return result.other_cores_by_host[host], host if len(result.other_cores_by_host) > 1 else None


def logs_of(result: Result) -> str:
    """Where to look for the cause of a failure: the logs of the tasks that incidents name, else all logs."""
    paths = RunPaths(Path(result.dir))
    tasks = dict.fromkeys(incident.task for incident in result.incidents if incident.task)
    return ", ".join(str(paths.log(task)) for task in tasks) or str(paths.logs)
