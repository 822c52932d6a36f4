"""Forms the gloo process group of workers that communicate without a parameter server."""

import os
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

import psutil
import torch.distributed as dist

from paceline.plan.roles import CHIEF
from paceline.ports import listening_socket
from paceline.train.context import Peers, TaskContext

_TIMEOUT = timedelta(seconds=600)
"""How long an operation waits for a peer. It is long because the agents notice a worker that dies, and the watchdog
finds one that hangs; a shorter timeout would end the run before they can say which worker it was."""


def join_process_group(context: TaskContext, addresses: Mapping[str, str] = MappingProxyType({})) -> Peers:
    """Form the process group, and return the addresses that all tasks announced.

    `addresses` are announced to the other tasks. gloo is bound to the interface of the host's address in the run;
    otherwise gloo would choose the interface that the host name resolves to.
    """
    job = context.job
    os.environ["GLOO_SOCKET_IFNAME"] = _interface_with_address(job.address)
    listener = listening_socket(job.address, job.ports) if job.is_chief else None
    store_address = {"store": f"{job.address}:{listener.getsockname()[1]}"} if listener else {}
    peers = context.rendezvous.exchange_addresses({**store_address, **addresses})
    host, port = peers[CHIEF]["store"].rsplit(":", 1)
    store = dist.TCPStore(
        host,
        int(port),
        job.workers,
        is_master=job.is_chief,
        timeout=_TIMEOUT,
        master_listen_fd=listener.detach() if listener else None,
    )
    dist.init_process_group("gloo", store=store, rank=job.index, world_size=job.workers, timeout=_TIMEOUT)
    return peers


def _interface_with_address(address: str) -> str:
    for name, addresses in psutil.net_if_addrs().items():
        if any(candidate.address == address for candidate in addresses):
            return str(name)
    raise RuntimeError(
        f"no network interface of this host has the address {address}: check the address given for this host"
    )
