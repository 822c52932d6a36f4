"""The descriptor of the strategy `periodic-averaging`. An engine implements it with a class for its workers."""

from paceline.strategies.descriptor import Strategy

UPDATES_BETWEEN_AVERAGES = 8

DESCRIPTOR = Strategy(
    name="periodic-averaging",
    summary=f"no server; workers average their parameters every {UPDATES_BETWEEN_AVERAGES} updates",
    update="One update is one step of every worker, each with its own gradient in its own copy of the model.",
    waiting=f"Every worker waits for all others when they average their parameters: every {UPDATES_BETWEEN_AVERAGES} "
    "updates, before an evaluation and at the end.",
    checkpoint="A checkpoint holds the chief's parameters and momentum, from which every worker resumes.",
    synchronous=True,
    waits="every-round",
    has_servers=False,
    phases=("data", "compute", "push"),
    barrier_phase="push",
    sends_every_parameter=True,
)
