"""What a reader must know before trusting the numbers of one run."""

from paceline.present.faults import was_injected
from paceline.present.thresholds import BACKGROUND_LOAD_CORES, SHORT_TRAINING_S
from paceline.store.result import Result


def run_notes(result: Result) -> list[str]:
    notes = []
    if any("machine" in host.scope.get("network", "") for host in result.hosts):
        notes.append("all hosts share this machine: network values are those of the machine, not of one host")
    if result.other_cores_mean > BACKGROUND_LOAD_CORES:
        notes.append(background_load(result.other_cores_mean))
    if any(map(was_injected, result.faults)):
        notes.append("faults were injected; throughput and bottleneck include their effect")
    if result.traced_steps:
        notes.append(f"phase times estimated from {result.traced_steps} traced steps")
    if 0 < result.train_s < SHORT_TRAINING_S:
        notes.append(f"training took only {result.train_s:.2f} s: too short for reliable host metrics")
    return notes


def background_load(cores: float) -> str:
    """Load of other programs on the machine during the run."""
    return f"background load: {cores:.1f} cores"
