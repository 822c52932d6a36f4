"""Which addresses a run listens on, as the system reports them, and that unauthorised clients cannot affect a run."""

import re
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import zmq

from paceline.paramserver.wire import Op, Request
from paramserver.running_server import connect_zmq
from support.live_run import LiveRun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses ss")
PS, ALLREDUCE = ("--layout", "pw w"), ("--layout", "w w")
UPDATES = 6_000


def listening_addresses(run: LiveRun) -> dict[str, set[str]]:
    """The addresses that each task listens on over TCP, in its own network namespace."""
    addresses = {}
    for event in run.events():
        if event["event"] == "started":
            command = ["nsenter", f"--net=/proc/{event['pid']}/ns/net", "ss", "-tlnpH"]
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            endpoints = [line.split()[3] for line in lines if f"pid={event['pid']}," in line]
            addresses[event["task"]] = {endpoint.rpartition(":")[0] for endpoint in endpoints}
    return addresses


def addresses_while_training(run: LiveRun) -> dict[str, set[str]]:
    """`listening_addresses` once the run trains; the run is killed then."""
    try:
        run.wait_until_training()
        return listening_addresses(run)
    finally:
        run.process.kill()
        run.process.communicate()


@pytest.mark.parametrize(
    ("arguments", "servers", "workers"),
    [
        (("--strategy", "ps-async", *PS), set(), set()),
        (("--strategy", "ps-async", *PS, "--set", "transport=tcp"), {"127.0.0.1"}, set()),
        (("--strategy", "allreduce", *ALLREDUCE), None, {"127.0.0.1"}),
    ],
)
def test_torch_listens_only_on_the_address_of_its_host(
    tmp_path: Path, arguments: tuple[str, ...], servers: set[str] | None, workers: set[str]
) -> None:
    addresses = addresses_while_training(LiveRun(tmp_path / "runs", *arguments, "--stop", "seconds=60"))
    assert addresses.get("ps0") == servers
    assert addresses["w0"] | addresses["w1"] == workers


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.parametrize("strategy", ["ps-sync", "allreduce"])
def test_torch_on_netns_hosts_listens_only_on_the_address_of_its_host(tmp_path: Path, strategy: str) -> None:
    layout = PS if strategy == "ps-sync" else ALLREDUCE
    run = LiveRun(tmp_path / "runs", "--strategy", strategy, *layout, "--hosts", "netns", "--stop", "seconds=60")
    for addresses in addresses_while_training(run).values():
        assert all(re.fullmatch(r"10\.\d+\.\d+\.\d+", address) for address in addresses)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async", "allreduce"])
def test_tensorflow_listens_on_every_interface_as_documented(tmp_path: Path, strategy: str) -> None:
    """If this fails, TensorFlow can listen on a single address: use that, and change the user guide."""
    layout = ALLREDUCE if strategy == "allreduce" else PS
    arguments = ("--engine", "tensorflow", "--strategy", strategy, *layout, "--stop", "seconds=60")
    addresses = addresses_while_training(LiveRun(tmp_path / "runs", *arguments))
    assert set.union(*addresses.values()) & {"*", "0.0.0.0", "[::]"}


def test_unauthorised_clients_at_the_port_of_a_server_do_not_affect_the_run(tmp_path: Path) -> None:
    arguments = ("--strategy", "ps-async", *PS, "--set", "transport=tcp", "--stop", f"steps={UPDATES}")
    run = LiveRun(tmp_path / "runs", *arguments)
    run.wait_until_training()
    lines = subprocess.run(["ss", "-tlnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    (address,) = [line.split()[3] for line in lines if f"pid={run.pid_of('ps0')}," in line]
    host, port = address.rsplit(":", 1)
    push = Request(Op.PUSH).header() + bytes(4 * 7_850)
    with ExitStack() as stack:
        intruders = [stack.enter_context(connect_zmq(f"tcp://{address}", None, f"w{n % 2}")) for n in range(4)]
        idle = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(50)]
        for intruder in intruders:
            intruder.linger, intruder.sndtimeo = 0, 0
        for connection in idle[::2]:
            connection.sendall(b"\xff" * 1_000)
        while run.process.poll() is None:
            for intruder in intruders:
                with suppress(zmq.Again):
                    intruder.send(push)
            assert not any(intruder.poll(20) for intruder in intruders)
    code, result = run.result()
    assert (code, result["status"], result["updates"]) == (0, "ok", UPDATES)
    assert result["incidents"] == []
    assert next(host["memory_mb_max"] for host in result["hosts"] if "ps0" in host["tasks"]) < 2_000
