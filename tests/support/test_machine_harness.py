"""Test machines behave as separate machines, can be broken in the ways that tests need, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from process_io import read_line
from support.machines import Cluster, make_machines, wait_for

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "~")
IN_BACKGROUND = "setsid -f sleep 1000 > /dev/null 2>&1"
needs_machines = pytest.mark.usefixtures("machine_support")


def test_machines_share_no_files_and_see_the_project_read_only(machines: Cluster, tmp_path: Path) -> None:
    first, second, _ = machines
    outside = tmp_path / "of-the-controller"
    outside.touch()
    machines.ssh(first, f"touch {' '.join(f'{folder}/mine' for folder in FOLDERS)}")
    expected = [f"{first.home}/mine", "/dev/shm/mine", "/tmp/mine", "/var/tmp/mine"]
    assert first.files() == sorted(expected)
    assert second.files() == []
    assert not any(Path(path).exists() for path in (*expected, "/run/mine"))
    assert machines.ssh(second, f"ls {outside} /run/mine", check=False).stdout == ""
    imported = machines.ssh(second, f"{sys.executable} -c 'import paceline; print(paceline.__file__)'").stdout.strip()
    refused = machines.ssh(second, f"touch {imported} /usr/mine", check=False)
    assert refused.stderr.count("Read-only file system") == 2


def test_machines_have_their_own_names_clocks_and_processes(machines: Cluster) -> None:
    told = [
        machines.ssh(machine, "hostname; cat /proc/sys/kernel/random/boot_id; cat /proc/uptime; ls -d /proc/[0-9]*")
        for machine in machines
    ]
    names, boots, uptimes = zip(*(one.stdout.splitlines()[:3] for one in told), strict=True)
    assert names == ("node1", "node2", "node3")
    assert len(set(boots)) == 3
    seconds = [float(uptime.split()[0]) for uptime in uptimes]
    assert all(later - earlier > 900 for earlier, later in pairwise(seconds))
    assert f"/proc/{os.getpid()}" not in told[0].stdout.splitlines()


def test_machines_reach_each_other_by_name_and_show_their_own_interfaces(machines: Cluster) -> None:
    first, second, _ = machines
    serve = "import socket; s = socket.create_server(('node2', 0)); print(s.getsockname()[1], flush=True); "
    serve += "c, peer = s.accept(); c.sendall(peer[0].encode())"
    server = second.popen([sys.executable, "-c", serve], stdout=subprocess.PIPE)
    port = read_line(server).strip()
    ask = f"import socket; print(socket.create_connection(('node2', {port}), 10).recv(99).decode())"
    assert first.run([sys.executable, "-c", ask]).stdout.strip() == first.address
    assert server.wait(10) == 0
    assert first.run(["ls", "/sys/class/net"]).stdout.split() == ["eth0", "lo"]


def test_ssh_verifies_host_keys_and_accepts_only_the_key_of_the_cluster(machines: Cluster, tmp_path: Path) -> None:
    assert machines.ssh("node2", "hostname", input="").stdout == "node2\n"
    config = machines.ssh_config.read_text()
    assert "StrictHostKeyChecking yes" in config
    key_of_other = (machines.folder / "known_hosts").read_text().splitlines()[0].split()[1:]
    wrong = tmp_path / "known_hosts"
    wrong.write_text(" ".join([machines["node2"].address, *key_of_other]) + "\n")
    refused = _ssh(machines, "-o", f"UserKnownHostsFile={wrong}", "node2", "hostname")
    assert "Host key verification failed" in refused.stderr
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    options = ["-F", "none", "-i", str(tmp_path / "key"), "-o", f"UserKnownHostsFile={machines.folder / 'known_hosts'}"]
    argv = ["ssh", *options, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", f"root@{machines['node2'].address}"]
    refused = subprocess.run(argv, capture_output=True, text=True)
    assert "Permission denied (publickey)" in refused.stderr


def test_environment_has_an_ssh_that_needs_no_configuration(machines: Cluster) -> None:
    done = subprocess.run(["ssh", "node3", "hostname"], env=machines.environment(), capture_output=True, text=True)
    assert done.stdout == "node3\n"


def test_cut_link_drops_packets_until_it_is_restored(machines: Cluster) -> None:
    machine = machines["node1"]
    machine.cut_link()
    assert _ssh(machines, "-o", "ConnectTimeout=1", "node1", "true").returncode == 255
    assert machines.ssh("node2", "hostname").stdout == "node2\n"
    machine.restore_link()
    assert machines.ssh("node1", "hostname").stdout == "node1\n"


def test_stopped_machine_accepts_connections_but_answers_only_after_thaw(machines: Cluster) -> None:
    machine = machines["node1"]
    sleeper = machine.popen(["sleep", "1000"])
    wait_for(lambda: [process.name for process in machine.processes()] == ["sleep"], "sleep runs")
    machine.stop_answering()
    assert [process.state for process in machine.processes()] == ["T"]
    client = _open(machines, "node1", "hostname")
    table = Path("/proc/net/tcp")
    peer = "".join(f"{int(part):02X}" for part in reversed(machine.address.split("."))) + ":0016 01"
    wait_for(lambda: peer in table.read_text(), "the kernel of the stopped machine accepts")
    machine.thaw()
    assert client.communicate()[0] == "node1\n"
    machine.kill_processes()
    assert sleeper.wait(10) != 0


def test_killed_session_ends_the_connection_and_not_sshd(machines: Cluster) -> None:
    machine = machines["node1"]
    client = _open(machines, "node1", "echo; cat")
    read_line(client)
    assert machine.kill_sshd_session() == 1
    assert client.wait(10) == 255
    machine.wait_until_idle()
    assert machines.ssh("node1", "hostname").stdout == "node1\n"


def test_stopped_sshd_refuses_connections_until_it_is_started(machines: Cluster) -> None:
    machine = machines["node1"]
    machine.stop_sshd()
    assert "Connection refused" in _ssh(machines, "node1", "true").stderr
    machine.start_sshd()
    assert machines.ssh("node1", "hostname").stdout == "node1\n"


def test_full_disk_refuses_writes_until_it_is_freed(machines: Cluster) -> None:
    machine = machines["node1"]
    write = "head -c 100000 /dev/zero > /tmp/file"
    machine.fill_disk(leave_bytes=50_000)
    assert "No space left on device" in machines.ssh("node1", write, check=False).stderr
    assert machines.ssh("node2", write).returncode == 0
    machine.free_disk()
    assert machines.ssh("node1", write).returncode == 0


def test_bashrc_is_read_before_a_command(machines: Cluster) -> None:
    machines["node1"].set_bashrc("echo welcome\n")
    assert machines.ssh("node1", "hostname").stdout == "welcome\nnode1\n"


def test_hidden_engine_is_neither_importable_nor_installed(machines: Cluster) -> None:
    machine = machines["node1"]
    ask = "import importlib.util as u, importlib.metadata as m; print(u.find_spec('torch') is None, "
    ask += "'torch' in m.packages_distributions(), u.find_spec('numpy') is None)"
    look = [sys.executable, "-c", ask]
    machine.hide_engine("torch")
    assert machine.run(look).stdout.split() == ["True", "False", "False"]
    assert machines["node2"].run(look).stdout.split() == ["False", "True", "False"]
    machine.show_engines()
    assert machine.run(look).stdout.split() == ["False", "True", "False"]


def test_reset_ends_processes_and_connections_and_removes_files(machines: Cluster) -> None:
    machine = machines["node1"]
    machine.run(["sh", "-c", f"mkdir -p /tmp/a/b; touch /tmp/a/b/c; ln -s / /dev/shm/link; {IN_BACKGROUND}"])
    client = _open(machines, "node1", "echo; cat")
    read_line(client)
    machine.stop_answering()
    machine.cut_link()
    machines.reset()
    assert (machine.processes(), machine.sessions(), machine.files()) == ([], [], [])
    client.kill()
    client.wait()


def test_crashed_machine_is_silent_and_the_others_go_on(machines: Cluster) -> None:
    machines["node3"].crash()
    assert _ssh(machines, "-o", "ConnectTimeout=1", "node3", "true").returncode == 255
    assert machines.ssh("node2", "hostname").stdout == "node2\n"


def test_crashed_machine_is_replaced_for_the_next_test(machines: Cluster) -> None:
    assert machines.ssh("node3", "hostname").stdout == "node3\n"


@needs_machines
def test_link_rate_and_connection_limit_are_applied() -> None:
    with make_machines(2, link_bits_s=80_000_000, max_startups="7") as cluster:
        first, second = cluster
        assert "maxstartups 7:" in first.run(["/usr/sbin/sshd", "-T", "-f", "/run/machine/sshd_config"]).stdout
        serve = "import socket; s = socket.create_server(('node2', 9)); print(flush=True); c, _ = s.accept()\n"
        serve += "while c.recv(2**20): pass\nc.sendall(b'end')"
        server = second.popen([sys.executable, "-c", serve], stdout=subprocess.PIPE)
        read_line(server)
        send = "import socket, time; c = socket.create_connection(('node2', 9)); start = time.monotonic(); "
        send += (
            "c.sendall(bytes(5_000_000)); c.shutdown(socket.SHUT_WR); c.recv(9); print(5 / (time.monotonic() - start))"
        )
        assert float(first.run([sys.executable, "-c", send]).stdout) < 11  # MB/s; the limit is 10.
        assert server.wait(10) == 0


MAKE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job of a shell ignores it.
sys.path[:0] = sys.argv[1:]
from support.machines import make_machines
with make_machines(2) as cluster:
    for machine in cluster:
        machine.run(["sh", "-c", "setsid -f sleep 1000 > /dev/null 2>&1; touch /tmp/file"])
    print(cluster.folder, cluster.interface, *(machine.pid for machine in cluster), flush=True)
    time.sleep(1000)
"""


@needs_machines
@pytest.mark.parametrize("killed", ["maker by SIGINT", "maker by SIGKILL", "maker and reaper by SIGKILL"])
def test_nothing_is_left_however_the_maker_ends(killed: str, tmp_path: Path) -> None:
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(Path(__file__).parents[1])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    folder, interface, *pids = read_line(maker).split()
    namespaces = {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in pids for kind in ("net", "mnt", "pid")}
    reaper = next(pid for pid in _pids() if _parent(pid) == maker.pid)
    namespaces.add(os.readlink(f"/proc/{reaper}/ns/net"))
    assert len(_processes_in(namespaces)) > 2 * 3  # Process 1, sshd and sleep.
    if "reaper" in killed:
        os.kill(reaper, signal.SIGKILL)
    maker.send_signal(signal.SIGINT if "SIGINT" in killed else signal.SIGKILL)
    maker.communicate()
    wait_for(lambda: not _processes_in(namespaces), "all processes end")
    wait_for(lambda: not Path(f"/sys/class/net/{interface}").exists(), "the interface is removed")
    if "reaper" in killed:
        assert Path(folder).exists()
        with make_machines(1):  # Removes the folder, or uses it and removes it at the end.
            pass
    wait_for(lambda: not Path(folder).exists(), "the folder is removed")
    assert "machine" not in Path("/proc/self/mountinfo").read_text()
    assert list(tmp_path.iterdir()) == []


@needs_machines
@pytest.mark.slow
def test_32_machines_answer_at_once() -> None:
    started = time.monotonic()
    with make_machines(32) as cluster:
        print(f"32 machines after {time.monotonic() - started:.1f} s")
        clients = [
            subprocess.Popen(["ssh", "-F", cluster.ssh_config, machine.name, "hostname"], stdout=subprocess.PIPE)
            for machine in cluster
        ]
        assert [client.communicate()[0].decode().strip() for client in clients] == [machine.name for machine in cluster]


def _ssh(cluster: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ssh", "-F", cluster.ssh_config, *arguments], capture_output=True, text=True)


def _open(cluster: Cluster, name: str, command: str) -> "subprocess.Popen[str]":
    argv = ["ssh", "-F", str(cluster.ssh_config), name, command]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _processes_in(namespaces: set[str]) -> list[int]:
    found = []
    for pid in _pids():
        for kind in ("net", "mnt", "pid"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/{kind}") in namespaces:
                    found.append(pid)
                    break
    return found
