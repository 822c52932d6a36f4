"""Observed runs for tests, made by the simulation itself: what they measure is known exactly."""

from functools import cache
from typing import TypeVar

import msgspec

from paceline.plan.roles import WORKER
from paceline.prediction.cluster import Setup
from paceline.prediction.costs import Costs
from paceline.prediction.observe import Observed, TaskCost
from paceline.prediction.simulate import simulate
from prediction.setups import make_setup

TRUTH = Costs(
    step_s=0.002,
    example_s=5e-5,
    sent_bytes=2e5,
    received_bytes=2e5,
    worker_message_s=2e-4,
    worker_byte_s=1e-9,
    worker_sync_s=5e-5,
    server_message_s=3e-4,
    server_byte_s=1.5e-9,
    server_sync_s=5e-5,
    round_s=2e-4,
    ring_byte_s=1.5e-9,
    packet_s=6e-6,
    upkeep=0.0,
    limited=1.1,
    crowded=1.4,
    step_noise=0.05,
    overlap=0.15,
)
"""The costs of the machine on which these runs were made."""
Struct = TypeVar("Struct", bound=msgspec.Struct)
GIGABIT, MEGABIT = 10**9, 10**6


def observed(number: int, setup: Setup, costs: Costs = TRUTH, factor: float = 1.0, workload: str = "made") -> Observed:
    """What a run of this configuration would have measured; `factor` makes it faster or slower."""
    found = simulate(setup, costs, seed=100 + number)
    seconds = found.facts.seconds
    steps = {worker.task: worker.steps for worker in found.facts.workers}
    uses = {worker.task: worker.use.cpu_cores for worker in found.facts.workers}
    uses |= {server.task: server.use.cpu_cores for server in found.facts.servers}
    ring = not setup.strategy.has_servers
    sent = costs.sent_bytes * 2 * (setup.workers - 1) / setup.workers if ring else costs.sent_bytes
    return Observed(
        run=f"run-{number}",
        directory=f"/runs/run-{number}",
        workload=workload,
        data="made",
        engine="torch",
        hosts="netns",
        transport="tcp",
        setup=setup,
        updates_per_s=found.updates_per_s * factor,
        examples_per_s=found.examples_per_s * factor,
        seconds=seconds,
        updates=100,
        tasks=tuple(
            TaskCost(
                task=place.task,
                role=place.role,
                host=place.host,
                cpu_s=uses[place.task] * seconds,
                steps=steps[place.task] if place.role == WORKER else sum(steps.values()),
            )
            for place in setup.places
        ),
        sent_bytes=sent,
        received_bytes=sent if ring else costs.received_bytes,
        window_s=seconds,
        background_cores=0.0,
        step_noise=0.05,
        compute_seconds=None,
    )


@cache
def _profile() -> tuple[Observed, ...]:
    setups = (
        make_setup("ps-async", "p w", batch=32, link_bits_s=GIGABIT, cores=4),
        make_setup("ps-sync", "p w", batch=128, link_bits_s=100 * MEGABIT, cpus=0.5, cores=4),
        make_setup("allreduce", "w w", batch=64, link_bits_s=200 * MEGABIT, cores=4),
    )
    return tuple(observed(number, setup) for number, setup in enumerate(setups))


def profile() -> list[Observed]:
    """The three runs that the guide recommends."""
    return list(_profile())


def changed(run: Struct, **fields: object) -> Struct:
    return msgspec.structs.replace(run, **fields)
