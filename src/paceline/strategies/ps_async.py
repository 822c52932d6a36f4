"""Parameter servers and asynchronous workers."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="ps-async",
    summary="parameter server; every worker's push is an update",
    update="One update applies one gradient of one worker, computed from parameters that may be some updates old.",
    waiting="A worker waits only for the servers' replies, not for other workers.",
    checkpoint="A checkpoint holds the parameters and the optimizer state of all servers at about one update.",
    synchronous=False,
    waits="never",
    has_servers=True,
    phases=("data", "pull", "compute", "push"),
    options={"compress": None},
    synchronous_counterpart="ps-sync",
    protocol="paceline.prediction.protocols:parameter_server",
    seldom_exchanging_counterpart="diloco",
)
