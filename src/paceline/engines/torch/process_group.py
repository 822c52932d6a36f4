"""Workers without a server: one gloo process group."""

import os
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

import psutil
import torch.distributed as dist

from paceline.engines.ports import listening_socket
from paceline.plan.roles import CHIEF
from paceline.train.context import Peers, TaskContext

_PATIENCE = timedelta(seconds=600)


def join(context: TaskContext, addresses: Mapping[str, str] = MappingProxyType({})) -> Peers:
    """Form the process group on this host's own address: gloo would else pick an interface by name.

    `addresses` are told to the others; theirs are returned.
    """
    job = context.job
    os.environ["GLOO_SOCKET_IFNAME"] = _interface_of(job.address)
    listener = listening_socket(job.address) if job.is_chief else None
    own = {"store": f"{job.address}:{listener.getsockname()[1]}"} if listener else {}
    peers = context.rendezvous.exchange_addresses({**own, **addresses})
    host, port = peers[CHIEF]["store"].rsplit(":", 1)
    store = dist.TCPStore(
        host,
        int(port),
        job.workers,
        is_master=job.is_chief,
        timeout=_PATIENCE,
        master_listen_fd=listener.detach() if listener else None,
    )
    dist.init_process_group("gloo", store=store, rank=job.index, world_size=job.workers, timeout=_PATIENCE)
    return peers


def _interface_of(address: str) -> str:
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            return str(name)
    raise RuntimeError(f"no network interface has the address {address}")
