"""Gradient descent as bulk-synchronous jobs: a driver broadcasts the parameters and adds up the gradients."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="bsp-sgd",
    summary="one job per update: broadcast, gradients of all workers, update on the driver",
    update="One update applies the mean of one gradient from every worker, on the driver.",
    waiting="Every worker waits in each step for its task, and then until the driver has the gradients of all workers.",
    checkpoint="A checkpoint holds the driver's parameters and optimizer state after one update.",
    synchronous=True,
    waits="every-step",
    has_servers=True,
    one_server=True,
    server_is="driver",
    phases=("data", "pull", "compute", "push", "wait"),
    barrier_phase="wait",
    waits_for_task=True,
    others_take_over=True,
    workers_evaluate=False,
)
