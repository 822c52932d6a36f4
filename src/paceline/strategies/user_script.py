"""A user's own script, which combines the updates of its ranks in its own way."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="user-script",
    summary="a user's own script; its ranks exchange what the script says",
    update="One update is one step of the script's optimizer, in every rank.",
    waiting="A rank waits where the script or its framework does, such as in the exchange of gradients.",
    checkpoint="Paceline writes no checkpoint: the script writes its own.",
    synchronous=True,
    waits="every-step",
    has_servers=False,
    phases=("data", "forward", "backward", "exchange", "optimizer"),
    barrier_phase="exchange",
    sends_every_parameter=True,
)
