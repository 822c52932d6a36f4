"""Workers that average their gradients among themselves."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="allreduce",
    summary="no server; workers average their gradients",
    update="One update applies the mean of one gradient from every worker, in each worker's own copy of the model.",
    waiting="Every worker waits in each step until all workers take part in the exchange of gradients.",
    checkpoint="A checkpoint holds the chief's parameters and optimizer state, which are the same in every worker.",
    synchronous=True,
    waits="every-step",
    has_servers=False,
    phases=("data", "compute", "push"),
    barrier_phase="push",
    sends_every_parameter=True,
    options={"compress": None},
    asynchronous_counterpart="ps-async",
    protocol="paceline.prediction.protocols:ring",
    seldom_exchanging_counterpart="diloco",
)
