"""Parameter servers and workers that are at most some steps apart (stale synchronous parallel)."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="ssp",
    summary="parameter server; as ps-async, but workers stay at most staleness_bound steps apart",
    update="One update applies one gradient of one worker, computed from parameters that may be some updates old.",
    waiting="A worker that is more than staleness_bound steps ahead of the slowest waits for it; with 0, every worker "
    "waits in each step for all others.",
    checkpoint="A checkpoint holds the parameters and the optimizer state of all servers at about one update.",
    synchronous=False,
    waits="when-ahead",
    has_servers=True,
    phases=("data", "pull", "compute", "push", "wait"),
    barrier_phase="wait",
    options={"staleness_bound": "3", "compress": None},
    asynchronous_counterpart="ps-async",
    protocol="paceline.prediction.protocols:parameter_server",
    synchronous_counterpart="ps-sync",
)
