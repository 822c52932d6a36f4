"""One worker alone."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="single",
    summary="one worker, nothing shared",
    update="One update is one step of the worker.",
    waiting="The worker waits for no other task.",
    checkpoint="A checkpoint holds the worker's parameters and optimizer state.",
    synchronous=True,
    waits="never",
    has_servers=False,
    single_worker=True,
    phases=("data", "compute"),
    multi_worker_counterpart="ps-sync",
    protocol="paceline.prediction.protocols:no_exchange",
)
