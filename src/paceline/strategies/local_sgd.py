"""Workers that train alone for some steps and then average their parameters."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="local-sgd",
    summary="no server; workers average their parameters every sync_every steps",
    update="One update is one step of every worker, each with its own gradient in its own copy of the model; every "
    "sync_every updates, each copy becomes the mean of all.",
    waiting="Every worker waits for all others when they average their parameters: every sync_every updates and at the "
    "end.",
    checkpoint="A checkpoint holds the averaged parameters and the momentum of every worker; it is written when a "
    "round ends. Ctrl-C ends the round early.",
    synchronous=True,
    waits="every-round",
    has_servers=False,
    phases=("data", "compute", "push"),
    barrier_phase="push",
    sends_every_parameter=True,
    options={"sync_every": 16, "compress": None},
    shares_memory=False,
    asynchronous_counterpart="ps-async",
    protocol="paceline.prediction.protocols:ring",
    synchronous_counterpart="allreduce",
)
