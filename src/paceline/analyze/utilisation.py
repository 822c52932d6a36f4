"""How much of the machines' arithmetic a model uses, and the tokens per second of a model of sequences."""

from paceline.analyze.training import Training
from paceline.store.header import RunHeader


def tokens_per_s(header: RunHeader, examples_per_s: float) -> float | None:
    """Tokens of training examples per second; None if examples are not sequences."""
    return None if header.tokens_per_example is None else round(header.tokens_per_example * examples_per_s, 1)


def flops_utilisation(header: RunHeader, training: Training, examples_per_s: float, cores: int) -> float | None:
    """The operations that the model needs, as a share of those that all cores of the run's machines can do.

    None if the operations of the model or the speed of a core are not known.
    """
    speeds = [event.operations_per_cpu_s for event in training.outcomes.values() if event.operations_per_cpu_s]
    if not header.operations_per_example or not speeds or not cores:
        return None
    return round(header.operations_per_example * examples_per_s / (cores * sum(speeds) / len(speeds)), 5)
