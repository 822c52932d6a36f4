"""The environment variables from which frameworks know the ranks: those of torchrun, and TF_CONFIG."""

import json
import os
from collections.abc import Sequence

import psutil

from paceline.train.context import Job, ScriptJob


def rank_environment(job: Job, script: ScriptJob, rendezvous: Sequence[str]) -> dict[str, str]:
    """The variables of one rank. `rendezvous` has an address with a free port for every rank."""
    address, port = rendezvous[0].rsplit(":", 1)
    variables = {
        "RANK": job.index,
        "WORLD_SIZE": job.workers,
        "LOCAL_RANK": script.local_rank,
        "LOCAL_WORLD_SIZE": script.local_ranks,
        "GROUP_RANK": script.node,
        "GROUP_WORLD_SIZE": script.nodes,
        "ROLE_NAME": "default",
        "ROLE_RANK": job.index,
        "ROLE_WORLD_SIZE": job.workers,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": job.run,
        "TORCHELASTIC_RESTART_COUNT": script.attempt,
        "TORCHELASTIC_MAX_RESTARTS": script.max_restarts,
    }
    if job.workers > 1:
        cluster = {"cluster": {"worker": list(rendezvous)}, "task": {"type": "worker", "index": job.index}}
        variables["TF_CONFIG"] = json.dumps(cluster)
        # gloo would choose the interface that the host name resolves to, which other hosts may not reach.
        if "GLOO_SOCKET_IFNAME" not in os.environ and (interface := _interface_with(job.address)):
            variables["GLOO_SOCKET_IFNAME"] = interface
    return {name: str(value) for name, value in variables.items()}


def _interface_with(address: str) -> str | None:
    """The network interface of this host that has the address; None if there is none."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(candidate.address == address for candidate in addresses):
            return str(name)
    return None
