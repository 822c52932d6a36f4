"""Parameter servers and synchronous workers."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="ps-sync",
    summary="parameter server; an update is the mean of all workers",
    update="One update applies the mean of one gradient from every worker.",
    waiting="Every worker waits in each step until the servers have the gradients of all workers.",
    checkpoint="A checkpoint holds the parameters and the optimizer state of all servers after one update.",
    synchronous=True,
    waits="every-step",
    has_servers=True,
    phases=("data", "pull", "compute", "push", "wait"),
    barrier_phase="wait",
    options={"compress": None},
    can_leave_out_slow_workers=True,
    asynchronous_counterpart="ps-async",
    protocol="paceline.prediction.protocols:parameter_server",
    seldom_exchanging_counterpart="diloco",
)
