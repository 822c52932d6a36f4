"""Workers that train alone for many steps; a second optimizer then applies the mean of what they changed (DiLoCo)."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="diloco",
    summary="no server; every sync_every steps, an outer Nesterov step applies the workers' mean change",
    update="One update is one step of every worker, each with its own gradient in its own copy of the model; every "
    "sync_every updates, SGD with Nesterov momentum applies the mean of the copies' changes to the global parameters, "
    "which then replace all copies.",
    waiting="Every worker waits for all others when they average their changes: every sync_every updates and at the "
    "end.",
    checkpoint="A checkpoint holds the global parameters, the outer momentum and the momentum of every worker; it is "
    "written when a round ends. Ctrl-C ends the round early.",
    synchronous=True,
    waits="every-round",
    has_servers=False,
    phases=("data", "compute", "push"),
    barrier_phase="push",
    sends_every_parameter=True,
    options={"sync_every": 100, "outer_lr": 0.7, "outer_momentum": 0.9, "compress": None},
    shares_memory=False,
    asynchronous_counterpart="ps-async",
    protocol="paceline.prediction.protocols:ring",
    synchronous_counterpart="allreduce",
)
