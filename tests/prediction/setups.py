"""Configurations and costs for tests of predictions."""

from typing import Any

from paceline.plan.layout import parse
from paceline.plan.limits import HostLimits
from paceline.prediction.cluster import Setup
from paceline.prediction.costs import Costs
from paceline.strategies.registry import strategies


def make_setup(
    strategy: str, layout: str, *, batch: int = 10, cores: float = 64, backup: int = 0, **limits: Any
) -> Setup:
    """A configuration on one machine; `limits` are those of every host."""
    parsed = parse(layout)
    return Setup(
        strategy=strategies()[strategy],
        places=parsed.places(),
        batch=batch,
        limits={host: HostLimits(host=host, **limits) for host in parsed.hosts},
        machine_cores={"machine": cores},
        machine_of=dict.fromkeys(parsed.hosts, "machine"),
        backup=backup,
    )


def make_costs(**changes: float) -> Costs:
    """Costs without noise: only what a test sets takes time."""
    fields: dict[str, float] = dict.fromkeys(
        (
            *("step_s", "example_s", "sent_bytes", "received_bytes", "worker_message_s", "worker_byte_s"),
            *("server_message_s", "server_byte_s", "round_s", "ring_byte_s", "packet_s", "hop_s", "step_noise"),
        ),
        0.0,
    )
    return Costs(**fields | changes)
