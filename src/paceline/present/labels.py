"""Names and units that people see: metrics, causes of a bottleneck, settings, columns of tables."""

import msgspec


class MetricLabel(msgspec.Struct, frozen=True):
    title: str
    """Heading of a column or an axis, with the unit."""
    goal: str = ""
    """What the best configuration in this metric is called; {target} is the loss or accuracy to reach."""
    quantity: str = ""
    """What a ratio of two values is a ratio of, as in `95 % CI of the loss ratio`."""
    unit: str = ""
    """After a value in a sentence."""
    digits: int | None = None
    """Digits after the decimal point; None is three significant digits."""
    scale: float = 1.0
    """Factor from the stored value to the shown one."""


METRICS = {
    "to_target_s": MetricLabel("time to target (s)", "fastest to {target}", "time", " s"),
    "train_s": MetricLabel("training time (s)", "shortest training time", "time", " s"),
    "updates_per_s": MetricLabel("updates/s", "most updates/s", "throughput", " updates/s"),
    "examples_per_s": MetricLabel("examples/s", "most examples/s", "throughput", " examples/s"),
    "final_loss": MetricLabel("test loss", "lowest test loss", "loss", digits=4),
    "final_accuracy": MetricLabel("accuracy (%)", "highest accuracy", "accuracy", " %", digits=2, scale=100),
    "memory_mb": MetricLabel("memory (MB)", "lowest peak memory", "memory", " MB"),
    "updates_to_target": MetricLabel("updates to target", quantity="update", digits=0),
    "examples_to_target": MetricLabel("examples to target", quantity="example", digits=0),
    "staleness_mean": MetricLabel("mean staleness", quantity="staleness", digits=2),
    "exchanged_bytes_per_example": MetricLabel("exchanged/example (kB)", quantity="traffic", scale=1e-3),
}
"""By the key of the metric in the JSON of `paceline compare`."""

CAUSES = {
    "contention": "CPU contention",
    "server": "parameter server",
    "input": "data input",
    "overhead": "framework overhead",
    "barrier": "synchronization barrier",
    "imbalance": "load imbalance",
    "checkpoint": "checkpointing",
    "gc": "garbage collection",
    "unknown": "not known",
}
"""Names of bottleneck causes that need more words than their key in the JSON."""

REPEATS_LEGEND = "median [min–max] over repeats"
TIME_BY_PHASE = "worker time by phase"
PHASES_CAPTION = (
    "Phases of a step: data = get the batch, pull = fetch parameters, compute = forward and backward pass, "
    "push = send gradients, wait = wait for other workers; fused = all of these in one call, if no step was traced. "
    "Of your own script also: forward, backward and optimizer, exchange = communication that no computation hides, "
    "other = everything else in the step."
)


def cause(key: str) -> str:
    return CAUSES.get(key, key)


def setting_label(name: str) -> str:
    """The name of a setting as people see it: `checkpoint_every` -> `checkpoint every`."""
    return "hosts" if name == "hosts_kind" else name.replace("_", " ")


def target(rule: str | None) -> str:
    """`loss=0.35` -> `loss 0.35`."""
    return (rule or "the target").replace("=", " ")
