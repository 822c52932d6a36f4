"""A real Ray cluster on test machines: the head on node1, one more node on each other machine.

What is true of Ray 2.60 here, measured on two cores:

- The wheel has 79 MB and takes 240 MB when installed, so `ray` is an extra of its own and no part of `dev`.
- The cluster takes 15 s to make and 0.3 s to remove. The dashboard and usage statistics are off.
- A driver (`ray.init` with the address of the head) must run on a machine of the cluster: from elsewhere Ray finds no
  node with the driver's address. The test process uses Ray Client, for which grpcio must be installed too.
- When a driver ends, its actors end, and their processes with them. `Machine.processes` does not list what Ray keeps
  for later: idle workers (`ray::IDLE`) and a process for each client of Ray Client. `Machine.files` does not list
  /tmp/ray, where Ray has its logs.
- Anyone who reaches the head can run code there; only this machine can, because the switch leads nowhere else.
"""

import importlib.util
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.machines import Cluster, Machine, make_machines, wait_for

_PORT = 6379
_CLIENT_PORT = 10001
_OBJECT_STORE_BYTES = 100_000_000  # Ray refuses less than 75 MB.
_CORES = 16  # More than there are: tests need room for actors, not for speed.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On a busy machine, the process that Ray Client starts for each client needs more than the usual 30 s.
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "120",
}
_CLIENT_SERVER = f"{sys.executable} -m ray.util.client.server"
_START_S = 120.0


class RayCluster:
    """Machines that are nodes of a Ray cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.head = cluster.machines[0]
        self.address = f"{self.head.address}:{_PORT}"
        """What a driver on one of the machines gives to `ray.init`. A driver must run on a node of the cluster."""
        self.client_address = f"ray://{self.head.address}:{_CLIENT_PORT}"
        """What any other process gives to `ray.init`, such as the test process: Ray Client."""

    def environment(self) -> dict[str, str]:
        """The environment in which `ray.init()` of the test process uses this cluster, by Ray Client."""
        return {**self.cluster.environment(), **_ENVIRONMENT, "RAY_ADDRESS": self.client_address}

    def run(self, command: Sequence[str | Path], **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a driver on the head, where `ray.init()` uses this cluster."""
        return self.head.run(command, environment={**_ENVIRONMENT, "RAY_ADDRESS": self.address}, **options)

    def reset(self) -> None:
        """Undo all faults, end all actors, and remove all files of tests; AssertionError if Ray has lost a node."""
        self.cluster.reset()
        for machine in self.cluster:
            assert machine.keeps_running("raylet", "gcs_server"), f"Ray has ended on {machine.name}"


@contextmanager
def make_ray(nodes: int = 3) -> Iterator[RayCluster]:
    """A Ray cluster with `nodes` machines, the head included, until the end of the block or of this process."""
    with make_machines(nodes) as cluster:
        ray = RayCluster(cluster)
        head, *others = cluster
        head_options = ["--head", f"--port={_PORT}", f"--ray-client-server-port={_CLIENT_PORT}"]
        starting = [_start(head, *head_options, "--include-dashboard=false")]
        wait_for(lambda: _listens(head.address, _PORT), "the head of Ray listens", _START_S)
        starting += [_start(machine, f"--address={ray.address}") for machine in others]
        for machine, process in zip(cluster, starting, strict=True):
            output, _ = process.communicate(timeout=_START_S)
            assert process.returncode == 0, f"ray start on {machine.name}: {output}"
        wait_for(lambda: _listens(head.address, _CLIENT_PORT), "Ray Client listens", _START_S)
        for machine in cluster:
            machine.keep_what_is_there(folders=["/tmp/ray"], commands=["ray::IDLE", _CLIENT_SERVER])
        yield ray


def reason_without_ray() -> str | None:
    """Why Ray cannot be used here; None if it can."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is not installed: python -m pip install -c constraints.txt -e '.[ray]'"
    return None


def _start(machine: Machine, *options: str) -> "subprocess.Popen[str]":
    limits = [f"--num-cpus={_CORES}", f"--object-store-memory={_OBJECT_STORE_BYTES}"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={machine.address}"]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return machine.popen([*command, *options, *limits], _ENVIRONMENT, stdin=subprocess.DEVNULL, **output)


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 5).close()
    except OSError:
        return False
    return True
