"""The links between hosts, measured by the hosts themselves in real network namespaces, and when that is done."""

import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from bench.cpu_steal import StealMeter

from paceline.available import catalog
from paceline.control import links
from paceline.control.link_schedule import Pair
from paceline.control.links import Capacity, Links, prepare_links
from paceline.control.probe_links import Link, Probes, unreachable_line
from paceline.errors import HostError
from paceline.hosts.base import Host, HostRequest
from paceline.hosts.local.hosts import LocalHost
from paceline.hosts.netns.hosts import NetnsHost, NetnsHosts, enter
from paceline.messages.link_probe import MeasureLinks
from paceline.plan.place import RunPlan, place
from paceline.ports import PortRange
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.task.link_probe import _measure_all

pytestmark = pytest.mark.alone
_TRIES = 5
"""A link cannot be filled while the machine below takes cores away."""
_DELAY_S = 0.005
_PORTS = PortRange(40_000, 40_003)
_ECHO = """
import socket, sys, time
if sys.argv[1] == "serve":
    listener = socket.create_server((sys.argv[2], 7007))
    print("ready", flush=True)
    connection, _ = listener.accept()
    while data := connection.recv(1):
        connection.sendall(data)
else:
    connection = socket.create_connection((sys.argv[2], 7007))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    best = 9e9
    for _ in range(50):
        start = time.perf_counter()
        connection.sendall(b"x")
        connection.recv(1)
        best = min(best, time.perf_counter() - start)
    print(best)
"""
"""A program that shares no code with the probe: the shortest of 50 round trips of one byte."""


def plan(**fields: object) -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "allreduce", "hosts": "netns", **fields}))
    return place(spec, catalog())


def _kernel_can_delay() -> bool:
    try:
        NetnsHosts().check([HostRequest(name="h1", latency_s=_DELAY_S)])
    except HostError:
        return False
    return True


def independent_rtt_s(sender: NetnsHost, receiver: NetnsHost) -> float:
    program = [sys.executable, "-c", _ECHO]
    with subprocess.Popen(
        enter(receiver.namespace, [*program, "serve", receiver.address]), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        client = enter(sender.namespace, [*program, "ask", receiver.address])
        return float(subprocess.run(client, capture_output=True, text=True, check=True).stdout)


@pytest.mark.netns
def test_rates_and_round_trip_times_of_all_pairs_are_those_of_the_links(tmp_path: Path) -> None:
    """h2 has 100 Mbit/s, which are 12.5 MB/s less the headers; h3 delays what it sends if the kernel can do that."""
    delay_s = _DELAY_S if _kernel_can_delay() else None
    wanted = [
        HostRequest(name="h1"),
        HostRequest(name="h2", link_bits_s=10**8),
        HostRequest(name="h3", latency_s=delay_s),
    ]
    with NetnsHosts().open("test-links", wanted) as hosts:
        for _ in range(_TRIES):
            with StealMeter() as steal, Probes(hosts, tmp_path / "scratch") as probes:
                probes.check_reachable()
                measured = probes.measure(one_machine=True)
            if not steal.is_too_high:
                break
        else:
            pytest.skip(f"the machine below took cores away each of {_TRIES} times")
        h1, _, h3 = (host for host in hosts if isinstance(host, NetnsHost))
        independent_s = independent_rtt_s(h1, h3)
    found = {(link.sender, link.receiver): link for link in measured}
    assert len(found) == len(measured) == 6
    assert not [link.error for link in measured if link.error]
    for pair in (("h1", "h2"), ("h2", "h1")):
        assert found[pair].mb_s == pytest.approx(12.0, rel=0.25)
    assert (found["h1", "h3"].mb_s or 0) > 3 * (found["h1", "h2"].mb_s or 0)
    for link in measured:
        assert link.rtt_s
        assert link.rtt_min_s
        assert link.rtt_min_s <= link.rtt_s
        if delay_s:
            assert (link.rtt_min_s >= delay_s) == ("h3" in (link.sender, link.receiver))
    # The shortest of a few round trips hardly depends on what else the machine does.
    assert 0.2 < (found["h1", "h3"].rtt_min_s or 0) / independent_s < 5


@pytest.mark.netns
def test_pair_that_cannot_connect_is_named_with_address_and_reason(tmp_path: Path) -> None:
    """Answers from the probe's ports of h1 are discarded, as by a firewall: nobody reaches h1, but h1 reaches all."""
    with NetnsHosts().open("test-walls", [HostRequest(name=name) for name in ("h1", "h2", "h3")]) as hosts:
        h1 = next(host for host in hosts if isinstance(host, NetnsHost))
        h1.ports = _PORTS
        rule = f"rule add ipproto tcp sport {_PORTS} blackhole"
        subprocess.run(["ip", "-n", h1.namespace, *rule.split()], check=True)
        with Probes(hosts, tmp_path / "scratch") as probes, pytest.raises(HostError) as refusal:
            probes.check_reachable()
    assert re.fullmatch(
        rf"h2 cannot reach h1 at {h1.address}:4000[0-3] \(connection timed out\): open that port between the hosts, or "
        r"fix `ports`/`address` in the inventory; neither can h3 reach h1",
        str(refusal.value),
    )


@pytest.mark.netns
def test_host_without_a_route_is_named_with_the_reason_of_the_system(tmp_path: Path) -> None:
    with NetnsHosts().open("test-route", [HostRequest(name=name) for name in ("h1", "h2")]) as hosts:
        h1, h2 = (host for host in hosts if isinstance(host, NetnsHost))
        subprocess.run(["ip", "-n", h1.namespace, "route", "add", "unreachable", h2.address], check=True)
        with Probes(hosts, tmp_path / "scratch") as probes, pytest.raises(HostError) as refusal:
            probes.check_reachable()
    assert re.match(rf"h1 cannot reach h2 at {h2.address}:\d+ \(no route to host\): ", str(refusal.value))


def test_another_program_at_the_address_of_a_probe_is_not_taken_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger, ThreadPoolExecutor(1) as threads:
        answered = threads.submit(lambda: stranger.accept()[0].close())
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        (found,) = _measure_all(MeasureLinks(("h2",), "reach"), {"h2": address}, b"token")
        answered.result()
    assert found.error
    (refused,) = _measure_all(MeasureLinks(("h2",), "reach"), {"h2": address}, b"token")
    assert refused.error == "connection refused"


class FakeProbes:
    """Stands for `Probes`: every link carries 1 MB/s per host number of its sender."""

    started: ClassVar[list[list[str]]] = []
    measured: ClassVar[int] = 0
    one_machine: ClassVar[bool]
    error: ClassVar[Exception | None] = None

    def __init__(self, hosts: Sequence[Host], _scratch: Path) -> None:
        self._names = [host.name for host in hosts]

    def __enter__(self) -> "FakeProbes":
        FakeProbes.started.append(self._names)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check_reachable(self) -> None:
        if self.error:
            raise self.error

    def measure(self, *, one_machine: bool) -> list[Link]:
        FakeProbes.measured += 1
        FakeProbes.one_machine = one_machine
        return [
            Link(sender=one, receiver=other, mb_s=float(one[1:]), rtt_s=0.001, rtt_min_s=0.0005)
            for one in self._names
            for other in self._names
            if one != other
        ]


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> type[FakeProbes]:
    monkeypatch.setattr(links, "Probes", FakeProbes)
    for name, value in (("started", []), ("measured", 0), ("error", None)):
        monkeypatch.setattr(FakeProbes, name, value)
    return FakeProbes


def _hosts(count: int) -> list[Host]:
    return [LocalHost(f"h{number}") for number in range(1, count + 1)]


def test_links_are_measured_once_a_week_for_the_same_hosts(
    tmp_path: Path, probes: type[FakeProbes], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    two, three = _hosts(2), _hosts(3)
    for _ in range(2):
        found = prepare_links(plan(layout="w w"), two, tmp_path, tmp_path)
        assert found.capacities["h2"] == Capacity(tx_mb_s=2.0, rx_mb_s=1.0, measured_at=now[0])
    prepare_links(plan(layout="w w w"), three, tmp_path, tmp_path)
    assert probes.started == [["h1", "h2"], ["h1", "h2", "h3"]]
    prepare_links(plan(layout="w w"), [LocalHost("h1"), LocalHost("h2", address="127.0.0.9")], tmp_path, tmp_path)
    assert probes.measured == 3
    now[0] += 8 * 24 * 3600
    prepare_links(plan(layout="w w"), two, tmp_path, tmp_path)
    assert probes.measured == 4


def test_capacity_of_a_host_is_its_best_link() -> None:
    pairs = [
        Link(sender="h1", receiver="h2", mb_s=10.0),
        Link(sender="h1", receiver="h3", mb_s=100.0),
        Link(sender="h3", receiver="h1", mb_s=90.0),
        Link(sender="h2", receiver="h1", error="connection reset by peer"),
    ]
    capacities = Links(pairs=pairs, measured_at=1.0).capacities
    assert capacities == {
        "h1": Capacity(tx_mb_s=100.0, rx_mb_s=90.0, measured_at=1.0),
        "h3": Capacity(tx_mb_s=90.0, rx_mb_s=100.0, measured_at=1.0),
    }


def test_hosts_on_separate_machines_are_checked_before_every_run(tmp_path: Path, probes: type[FakeProbes]) -> None:
    separate = msgspec.structs.replace(plan(layout="w w"), shares_one_machine=False)
    for _ in range(2):
        assert len(prepare_links(separate, _hosts(2), tmp_path, tmp_path).pairs) == 2
    assert (len(probes.started), probes.measured, probes.one_machine) == (2, 1, False)
    probes.error = HostError("h2 cannot reach h1")
    with pytest.raises(HostError):
        prepare_links(separate, _hosts(2), tmp_path, tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": "local", "layout": "w w"},
        {"layout": "w w", "link": "1gbit"},
        {"layout": "w", "strategy": "single"},
    ],
)
def test_no_probe_is_started_where_it_could_find_nothing(
    tmp_path: Path, probes: type[FakeProbes], fields: dict[str, Any]
) -> None:
    run = plan(**fields)
    assert prepare_links(run, _hosts(len(run.layout.hosts)), tmp_path, tmp_path) == Links()
    assert not probes.started


def test_run_goes_on_without_measurements_if_the_probes_fail(tmp_path: Path, probes: type[FakeProbes]) -> None:
    probes.error = RuntimeError("lost the agent of h2")
    (tmp_path / ".links.json").write_bytes(b"torn {")
    assert prepare_links(plan(layout="w w"), _hosts(2), tmp_path, tmp_path) == Links()


def test_more_pairs_that_cannot_connect_are_listed_behind_the_first() -> None:
    reasons = {Pair("h1", "h2"): "connection refused", Pair("h3", "h2"): "x", Pair("h2", "h1"): "x"}
    line = unreachable_line(reasons, {"h2": {"link": "10.0.0.5:40012"}})
    assert line == (
        "h1 cannot reach h2 at 10.0.0.5:40012 (connection refused): open that port between the hosts, or fix "
        "`ports`/`address` in the inventory; neither can h3 reach h2, h2 reach h1"
    )
