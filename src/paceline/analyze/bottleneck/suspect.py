"""A candidate for the bottleneck of a run."""

from collections.abc import Mapping

import msgspec

from paceline.analyze.bottleneck.facts import WorkerFacts

UNKNOWN = "unknown"
"""The cause of the time that no cause explains."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for the bottleneck."""

    cause: str
    where: str
    share: float
    """Share of the workers' time; if startup is a suspect, share of the time of startup and training."""
    evidence: tuple[str, ...] = ()
    threads: int = 1
    """The most compute threads of a worker, if the remedy depends on it."""
    reason: str = ""
    """What leads to the cause, if the remedy depends on it: `cpu_limit`, `background_load`, `uneven_servers`,
    `contention`, `exchange`, `messages`, `fewer_threads` or the phase in which a slow worker loses its time."""
    fitting_workers: Mapping[str, int] = {}
    """For contention: how many workers of each host the contended cores can carry."""
    takes_over: Mapping[str, float] = {}
    """For a cause that explains time of other causes better: how much of the share of each other cause it contains.
    The others lose this part, so that no time is counted twice."""
    host: str = ""
    """The host that it is about, if the remedy depends on it."""


def line_evidence(worker: WorkerFacts, phase: str) -> list[str]:
    """A sentence with the line of a user's script in which a phase was most often; none if that is not known."""
    line = worker.lines.get(phase)
    return [f"{phase} on {worker.task}: {line}"] if line else []
