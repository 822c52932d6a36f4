"""A connection to a Ray cluster for one run, or the one that this process has already."""

import logging
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from paceline.errors import HostError, message_of
from paceline.hosts.ray.address import AUTO, RayAddress

_REACH_S = 10.0
"""How long the head may take to accept a connection."""
_CONNECT_S = 90.0
"""How long Ray may take to connect: Ray Client starts a process on the head for each client."""
_NOT_A_NODE = ("No node info found matching", "Failed to upload module")
"""What Ray says on a machine that has no part in the cluster, and so no folder of its session."""
_VERSIONS = re.compile(r"Ray: *(\S+)\s+Python: *(\S+).*Ray: *(\S+)\s+Python: *(\S+)", re.DOTALL)


def require_ray() -> None:
    """HostError if the package `ray` is not installed; does not import it, which takes a second."""
    if find_spec("ray") is None:
        raise HostError("--hosts ray needs the package 'ray': install it with `pip install 'paceline[ray]'`")


@contextmanager
def connect(address: RayAddress, namespace: str) -> Iterator[Any]:
    """The module `ray`, connected to the cluster; HostError if that does not work.

    A connection that this process has already is used as it is, and stays. Paceline's code is then not sent to the
    nodes: a node must have the same.
    """
    require_ray()
    import ray

    if ray.is_initialized():
        yield ray
        return
    _require_listener(address)
    _require_node(address)
    try:
        _run_within(_CONNECT_S, lambda: ray.init(**_settings(address, namespace)))
    except Exception as error:
        ray.shutdown()
        raise HostError(explain(address, error)) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def explain(address: RayAddress, error: Exception) -> str:
    """Why the cluster cannot be used, in one line that says what to do."""
    text = message_of(error) or type(error).__name__
    cluster = _name(address)
    if versions := _VERSIONS.search(text):
        theirs, ours = versions.group(1, 2), versions.group(3, 4)
        return (
            f"{cluster} has Ray {theirs[0]} with Python {theirs[1]}, but this process has Ray {ours[0]} with Python "
            f"{ours[1]}: use the same versions, e.g. run Paceline on the cluster with `ray job submit`"
        )
    if isinstance(error, TimeoutError):
        return f"{cluster} did not answer within {_CONNECT_S:.0f} s: check it with `ray status`"
    if address.text == AUTO and isinstance(error, ConnectionError):
        return (
            "no Ray cluster was found on this machine: start one with `ray start --head`, or write its address, "
            "--hosts ray:HOST:PORT or --hosts ray:ray://HOST:PORT"
        )
    if any(words in text for words in _NOT_A_NODE):
        return _not_a_node(address)
    return f"{cluster} cannot be used: {text}"


def _name(address: RayAddress) -> str:
    return "the Ray cluster" if address.text == AUTO else f"the Ray cluster at {address.text}"


def _not_a_node(address: RayAddress) -> str:
    return (
        f"this machine is not a node of {_name(address)}: run Paceline on a node, or use Ray Client, "
        f"--hosts ray:ray://{address.host or 'HOST'}:10001"
    )


def own_code() -> list[str]:
    """The folders of Paceline's own code and of its metadata, which Ray sends to the nodes."""
    package = Path(__file__).parents[2]
    metadata = Path(str(distribution(package.name).locate_file(""))).glob(f"{package.name}-*.dist-info")
    return [str(package), *sorted(map(str, metadata))]


def _settings(address: RayAddress, namespace: str) -> dict[str, Any]:
    return {
        "address": address.text,
        "namespace": namespace,
        "log_to_driver": False,
        "logging_level": logging.CRITICAL,
        "runtime_env": {"py_modules": own_code(), "excludes": ["__pycache__"]},
    }


def _require_listener(address: RayAddress) -> None:
    """HostError if nothing listens at the address. Ray itself would try for minutes and print warnings."""
    if not address.host:
        return
    try:
        socket.create_connection((address.host, address.port), _REACH_S).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise HostError(
            f"no Ray cluster can be reached at {address.text}: {reason}: check the address, and that `ray status` works"
        ) from None


def _require_node(address: RayAddress) -> None:
    """HostError if this machine is not a node of any cluster: Ray may end the whole process in that case."""
    if not address.host or address.text.startswith("ray://"):
        return
    prefix = "--raylet_socket_name="
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet":
            sockets = [word.removeprefix(prefix) for word in process.info["cmdline"] or [] if word.startswith(prefix)]
            if any(map(os.path.exists, sockets)):
                return
    raise HostError(_not_a_node(address))


def _run_within(timeout_s: float, function: Any) -> Any:
    """The function's result or exception; TimeoutError if it takes longer.

    It runs in a thread of its own also because `ray.init` replaces the handler of SIGTERM in the main thread.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="connect-ray", daemon=True).start()
    return future.result(timeout_s)
