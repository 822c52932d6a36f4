"""The bottleneck of a run as plain data: what the key `verdict` of a result contains."""

from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=-0.01, le=1.01)]
"""A share of the whole, with room for rounding. A file with another value is damaged."""

WORKERS_TIME = "the workers' time"
RUN_TIME = "the time of startup and training"


class AccountedTime(msgspec.Struct, kw_only=True):
    """The share of the time that one cause accounts for."""

    cause: str
    """As in `Verdict.cause`; `unknown` if it is not known what the time was spent on."""
    where: str
    share: Share


class MemoryGrowth(msgspec.Struct, kw_only=True):
    """A task whose memory grew steadily until the end of the training."""

    task: str
    host: str
    mb_per_s: float
    from_mb: float
    to_mb: float
    full_after_s: float | None = None
    """Seconds after the end of the training until the memory of the machine would be used up at that rate."""


class Episode(msgspec.Struct, kw_only=True):
    """A period of the training with one bottleneck."""

    cause: str
    """As in `Verdict.cause`."""
    where: str
    start_s: float
    """Seconds since the start of the training."""
    end_s: float
    share: Share
    """Share of the workers' time that the cause accounts for in this period."""


class Verdict(msgspec.Struct, kw_only=True):
    """The bottleneck of the run."""

    cause: str
    where: str
    share: Share
    """Share of the time that the cause accounts for; 0 if the bottleneck is not clear."""
    evidence: list[str]
    remedy: list[str]
    runner_up: AccountedTime | None = None
    """The cause with the second largest share."""
    confidence: Literal["high", "medium", "low"] = "low"
    """Depends on the number of steps, the part of their time that was recorded, and the lead over the second cause."""
    account: list[AccountedTime] = []
    """What the time was spent on, the largest share first; the shares add up to 1. Empty for runs of older versions."""
    share_of: str = WORKERS_TIME
    """What the shares are a share of: the workers' time or, if startup took most of the run, startup and training."""
    episodes: list[Episode] = []
    """The bottlenecks one after the other, in order of time; empty for a training that was too short to tell."""
