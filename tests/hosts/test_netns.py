"""Hosts in a box, for real: they talk, they are held to their link and CPU share, and they leave no trace."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hosts.namespaces import needs_root, requests
from paceline.errors import HostError, RunError
from paceline.hosts.base import Condition, Host, HostRequest
from paceline.hosts.netns import cgroup, iproute, leftovers, run_lock
from paceline.hosts.netns import hosts as netns_hosts
from paceline.hosts.netns.hosts import NetnsHost, NetnsHosts, enter
from paceline.hosts.netns.setup import CreatedHost, apply_condition, downlink, uplink
from paceline.messages import FromAgent, Hello, Receiver, Sender, Setup
from paceline.messages.framing import skip_to_start_marker
from process_io import read_line, send_line

pytestmark = needs_root

SERVE = """
import os, socket, sys
os.nice(-20)
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
connection, peer = listener.accept()
while connection.recv(2**20): pass
connection.sendall(peer[0].encode())
"""
# It stops the clock when the receiver has it all, so the rate cannot look too high. Both go before what else
# runs on this machine, or the rate would be that of a busy core.
SEND = """
import os, socket, sys, time
os.nice(-20)
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
started = time.monotonic()
for _ in range(int(sys.argv[3])): connection.sendall(bytes(10**6))
connection.shutdown(socket.SHUT_WR)
seen_as = connection.recv(100).decode()
print(seen_as, int(sys.argv[3]) / (time.monotonic() - started))
"""
# Each window is taken as the longest it can have been, so a late reading cannot make a rate look too high.
WATCH = """
import sys, time
def received(interface):
    before = time.monotonic()
    with open("/proc/net/dev") as table:
        line = next(line for line in table if line.strip().startswith(interface))
    return before, int(line.split(":")[1].split()[0]), time.monotonic()
last = received("eth0")
for _ in range(20):
    time.sleep(0.1)
    now = received("eth0")
    print((now[1] - last[1]) / (now[2] - last[0]) / 1e6)
    last = now
"""
BURN = """
import sys, time
with open(sys.argv[1], "w") as group: group.write("0")
print("in", flush=True)
sys.stdin.readline()
started, ticks = time.monotonic(), time.process_time()
while time.monotonic() - started < 2: pass
print((time.process_time() - ticks) / (time.monotonic() - started))
"""
# A controller that can be killed: it opens hosts, with a process in each namespace and cgroup.
HOLD = """
import subprocess, sys, time
from paceline.hosts.base import HostRequest
from paceline.hosts.netns.hosts import NetnsHosts, enter
wanted = [HostRequest(name=name, cpus=0.5) for name in ("h1", "h2", "h3")]
with NetnsHosts().open(sys.argv[1], wanted) as hosts:
    for host in hosts:
        inside = "echo $$ > " + host.cgroups[0] + "; echo in; exec sleep 1000"
        sleeper = subprocess.Popen(enter(host.namespace, ["sh", "-c", inside]), stdout=subprocess.PIPE)
        sleeper.stdout.readline()
        print(sleeper.pid, flush=True)
    print("ready", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def token() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def holder(token: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds three hosts."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, token], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()
    leftovers.clean(left_of(token))


def start(host: Host, script: str, *arguments: object) -> subprocess.Popen[str]:
    assert isinstance(host, NetnsHost)
    argv = enter(host.namespace, [sys.executable, "-c", script, *map(str, arguments)])
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def transfer(sender: Host, receiver: Host, megabytes: int) -> float:
    """MB/s that a program sees when it sends so much."""
    server = start(receiver, SERVE, receiver.address)
    client = start(sender, SEND, receiver.address, read_line(server), megabytes)
    seen_as, rate = client.communicate()[0].split()
    assert seen_as == sender.address
    server.communicate()
    return float(rate)


def traces(token: str) -> list[str]:
    """Everything on this machine that carries the token."""
    places = [Path(iproute.NAMESPACES), cgroup.root(), run_lock.DIRECTORY]
    return [name for place in places if place.is_dir() for name in os.listdir(place) if token in name]


def reaper_of(token: str) -> int:
    (pid,) = [made.reaper for made in run_lock.run_locks() if made.path.stem == token]
    assert pid
    return pid


def kill_reaper(token: str) -> None:
    pid = reaper_of(token)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_running(pid))


def left_of(token: str) -> list[leftovers.Leftover]:
    return [left for left in leftovers.find() if token in left.name]


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def root_network() -> str:
    commands = (["ip", "-br", "link"], ["ip", "-br", "address"], ["ip", "route", "show", "table", "all"])
    return "".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)


def test_three_hosts_reach_each_other_and_the_machine_sees_nothing_of_it(token: str) -> None:
    before = root_network()
    with NetnsHosts().open(token, requests(3)) as hosts:
        assert [host.name for host in hosts] == ["h1", "h2", "h3"]
        assert len({host.address for host in hosts}) == 3
        for sender in hosts:
            for receiver in hosts:
                assert transfer(sender, receiver, megabytes=1) > 0
        assert root_network() == before
        listed = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
        assert {f"pl-{token}-{name}" for name in ("h1", "h2", "h3", "sw")} <= {
            row.split()[0] for row in listed.splitlines()
        }
    assert root_network() == before
    assert not traces(token)


MOST_TRIES = 8


@pytest.mark.parametrize("direction", ["sends", "receives"])
def test_a_link_of_100mbit_holds_both_ways(token: str, direction: str) -> None:
    slow, fast = HostRequest(name="h1", link_bits_s=100_000_000), HostRequest(name="h2")
    with NetnsHosts().open(token, [slow, fast]) as (limited, other):
        sender, receiver = (limited, other) if direction == "sends" else (other, limited)
        rates = [transfer(sender, receiver, megabytes=10)]
        # A machine that is held up for a moment sends less, never more.
        while max(rates) <= 10 and len(rates) < MOST_TRIES:
            rates.append(transfer(sender, receiver, megabytes=10))
        assert 10 < max(rates) < 12.5


def test_no_tenth_of_a_second_goes_over_the_link_rate(token: str) -> None:
    with NetnsHosts().open(token, requests(3, link_bits_s=100_000_000)) as (receiver, *senders):
        servers = [start(receiver, SERVE, receiver.address) for _ in senders]
        for server, sender in zip(servers, senders, strict=True):
            start(sender, SEND, receiver.address, read_line(server), 1000)
        windows = [float(line) for line in start(receiver, WATCH).communicate()[0].split()]
        assert max(windows) < 12.5 * 1.03


def test_a_living_host_is_cut_mended_limited_and_freed(token: str) -> None:
    unlimited, announced = HostRequest(name="h2"), HostRequest(name="h1", faults=frozenset({"cut", "limit", "slow"}))
    with NetnsHosts().open(token, [announced, unlimited]) as (host, other):
        assert isinstance(host, NetnsHost)
        before = qdiscs(host)
        host.apply_condition(Condition(linked=False))
        assert "NO-CARRIER" in inside(host, "ip", "link", "show", "eth0")
        host.apply_condition(Condition(link_bits_s=20_000_000, cpus=0.5))
        assert "NO-CARRIER" not in inside(host, "ip", "link", "show", "eth0")
        assert 0 < transfer(host, other, megabytes=1) < 2.5
        assert 0 < transfer(other, host, megabytes=1) < 2.5
        host.apply_condition(Condition(link_bits_s=10_000_000, cpus=0.5))
        assert 0 < transfer(host, other, megabytes=1) < 1.25
        hierarchy, (procs,) = cgroup.cpu_hierarchy(), host.cgroups
        assert hierarchy
        held = {name: (Path(procs).parent / name).read_text() for name in CPU_FILES[hierarchy.version]}
        host.apply_condition(Condition())
        freed = {name: (Path(procs).parent / name).read_text() for name in CPU_FILES[hierarchy.version]}
        assert held != freed
        assert any(text.startswith(("-1", "max")) for text in freed.values())
        assert qdiscs(host) == before
    assert not traces(token)


CPU_FILES = {1: ["cpu.cfs_quota_us"], 2: ["cpu.max"]}


def inside(host: NetnsHost, *command: str) -> str:
    argv = enter(host.namespace, list(command))
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def qdiscs(host: NetnsHost) -> str:
    return inside(host, "tc", "qdisc", "show", "dev", "eth0")


def test_what_the_system_refuses_to_change_is_one_line(token: str) -> None:
    with NetnsHosts().open(token, requests(1)) as (host,):
        assert isinstance(host, NetnsHost)
        host.switch = f"{host.switch}-not-there"
        with pytest.raises(RunError, match="h1 cannot be changed: ") as refused:
            host.apply_condition(Condition(linked=False))
        assert "\n" not in str(refused.value)


def test_a_delayed_host_keeps_its_delay_when_its_rate_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, list[str], str]] = []
    monkeypatch.setattr(iproute, "batch", lambda name, lines, *, namespace: told.append((name, lines, namespace)))
    made = CreatedHost(
        name="h1", address="", namespace="ns", cgroups=[], switch="sw", delayed=True, condition_now=Condition()
    )
    apply_condition(made, Condition(link_bits_s=10**9))
    apply_condition(made, Condition(link_bits_s=10**9))
    apply_condition(made, Condition())
    assert told == [
        ("tc", ["qdisc replace dev eth0 parent 1:1 handle 10: tbf rate 1000000000bit burst 250000 latency 50ms"], "ns"),
        ("tc", ["qdisc replace dev h1 root handle 10: tbf rate 1000000000bit burst 250000 latency 50ms"], "sw"),
        ("tc", ["qdisc del dev eth0 parent 1:1"], "ns"),
        ("tc", ["qdisc del dev h1 root"], "sw"),
    ]


def test_half_a_cpu_is_half_a_cpu_for_all_tasks_together(token: str) -> None:
    with NetnsHosts().open(token, requests(1, cpus=0.5)) as (host,):
        assert isinstance(host, NetnsHost)
        (group,) = host.cgroups
        _give_priority(Path(group).parent)
        used = [_burn_two(host, group)]
        # A machine that is held up for a moment gives less, never more.
        while max(used) < 0.425 and len(used) < MOST_TRIES:
            used.append(_burn_two(host, group))
        assert max(used) == pytest.approx(0.5, rel=0.15)


def _burn_two(host: NetnsHost, group: str) -> float:
    """The cores that two busy processes got together."""
    burners = [start(host, BURN, group) for _ in range(2)]
    assert [read_line(burner) for burner in burners] == ["in", "in"]
    for burner in burners:
        send_line(burner)
    return sum(float(burner.communicate()[0]) for burner in burners)


def _give_priority(group: Path) -> None:
    """What else runs on this machine must not take from the group's share."""
    version_1 = group / "cpu.shares"
    version_1.write_text("262144") if version_1.exists() else (group / "cpu.weight").write_text("10000")


def test_the_agent_runs_inside_its_host(token: str, tmp_path: Path) -> None:
    with NetnsHosts().open(token, requests(1, cpus=0.5)) as (host,):
        assert isinstance(host, NetnsHost)
        agent = host.start_agent(tmp_path / "agent.log")
        Sender(agent.stdin).send(Setup(str(tmp_path / "spool"), sample_hz=0.0))
        skip_to_start_marker(agent.stdout)
        hello = Receiver[FromAgent](agent.stdout, FromAgent).receive()
        assert isinstance(hello, Hello)
        assert (hello.host, hello.network) == ("h1", "host")
        assert os.stat(f"/proc/{hello.pid}/ns/net").st_ino == os.stat(f"{iproute.NAMESPACES}/pl-{token}-h1").st_ino
        (group,) = host.cgroups
        assert Path(f"/proc/{hello.pid}/root{group}").exists(), "what its tasks must join, it can see"
        agent.stdin.close()
        assert agent.wait(20)


def test_a_controller_killed_dead_leaves_nothing(token: str, holder: subprocess.Popen[str]) -> None:
    sleepers = [int(read_line(holder)) for _ in range(3)]
    assert read_line(holder) == "ready"
    os.kill(sleepers[0], signal.SIGSTOP)
    assert len(traces(token)) == 8  # three hosts and the switch, three cgroups, the claim
    holder.kill()
    eventually(lambda: not traces(token) and not any(map(is_running, sleepers)))


def test_leftovers_of_a_killed_reaper_are_found_and_removed(token: str, holder: subprocess.Popen[str]) -> None:
    sleepers = [int(read_line(holder)) for _ in range(3)]
    assert read_line(holder) == "ready"
    assert left_of(token) == []
    kill_reaper(token)
    assert left_of(token) == [], "the run still lives, so its hosts are not leftovers"
    assert leftovers.clean([leftovers.Leftover("namespace", f"pl-{token}-h1")]) == []

    holder.kill()
    holder.wait()
    left = left_of(token)
    assert sorted(found.kind for found in left) == ["cgroup"] * 3 + ["lock"] + ["namespace"] * 4
    assert {pid for found in left for pid in found.pids} == set(sleepers)
    lines = leftovers.clean(left)
    assert f"removed namespace pl-{token}-h1" in lines
    assert f"removed cgroup paceline-{token}-h1" in lines
    assert f"killed process {sleepers[0]} (sleep)" in lines
    assert not traces(token)
    assert not any(map(is_running, sleepers))


def test_leaving_the_hosts_removes_them_even_if_the_reaper_was_killed(token: str) -> None:
    with NetnsHosts().open(token, requests(2, cpus=0.5)):
        kill_reaper(token)
    assert not traces(token)


def test_leaving_the_hosts_removes_them_even_if_the_reaper_hangs(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns_hosts, "_REAPER_END_S", 0.1)
    with NetnsHosts().open(token, requests(2, cpus=0.5)):
        os.kill(reaper_of(token), signal.SIGSTOP)
    assert not traces(token)


def test_a_reaper_ignores_ctrl_c_and_cleans_up_when_terminated(token: str) -> None:
    with NetnsHosts().open(token, requests(2)):
        reaper = reaper_of(token)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(reaper, number)
        eventually(lambda: not traces(token))


def test_a_run_that_raises_leaves_nothing(token: str) -> None:
    with pytest.raises(RuntimeError, match="mid-run"), NetnsHosts().open(token, requests(2)):
        raise RuntimeError("mid-run")
    assert not traces(token)


def test_a_token_in_use_is_refused_and_its_hosts_stay(token: str) -> None:
    with NetnsHosts().open(token, requests(2)) as hosts:
        with pytest.raises(HostError, match="doctor --clean"), NetnsHosts().open(token, requests(2)):
            pass
        assert transfer(hosts[0], hosts[1], megabytes=1) > 0


def test_hosts_that_cannot_be_made_leave_nothing(token: str) -> None:
    unmakeable = HostRequest(name="a-name-too-long-for-an-interface")
    with pytest.raises(HostError, match="cannot be made"), NetnsHosts().open(token, [*requests(2), unmakeable]):
        pass
    assert not traces(token)


def test_latency_delays_what_is_sent_and_the_rate_holds_both_ways() -> None:
    host = HostRequest(name="h1", link_bits_s=10**9, latency_s=0.005)
    assert uplink(host) == [
        "qdisc add dev eth0 root handle 1: netem limit 100000 delay 5000us",
        "qdisc add dev eth0 parent 1:1 handle 10: tbf rate 1000000000bit burst 250000 latency 50ms",
    ]
    assert downlink(host) == ["qdisc add dev h1 root handle 10: tbf rate 1000000000bit burst 250000 latency 50ms"]
    assert uplink(HostRequest(name="h1")) == downlink(HostRequest(name="h1")) == []


def test_a_run_that_ends_while_leftovers_are_looked_for_has_left_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = iter([{"pl-run-h1"}, set()])
    monkeypatch.setattr(leftovers, "_namespaces", lambda: next(listed))
    monkeypatch.setattr(run_lock, "run_locks", list)
    assert [one.name for one in leftovers.find() if one.kind == "namespace"] == []
