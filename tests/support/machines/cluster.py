"""Makes test machines on this machine, with everything that a controller needs to reach them by ssh."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import paceline
from support.machines.machine import Machine

MAX_MACHINES = 32
_SUPPORT = Path(__file__).parents[1]
_PROJECT = _SUPPORT.parents[1]
_SSHD = "/usr/sbin/sshd"
_COMMANDS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
_END_S = 30.0


class MachinesError(Exception):
    """The machines cannot be made; the text is one line."""


class Cluster:
    """Machines that are joined by a switch. The test process has an address there too: it is the controller."""

    def __init__(self, machines: Sequence[Machine], folder: Path, address: str, interface: str) -> None:
        self.machines = list(machines)
        self.folder = folder
        """A folder of the controller for this cluster only: keys, known_hosts, ssh_config. Removed at the end."""
        self.address = address
        self.interface = interface
        self.ssh_config = folder / "ssh_config"

    def __getitem__(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines)

    def __len__(self) -> int:
        return len(self.machines)

    def ssh(
        self, machine: Machine | str, *command: str, check: bool = True, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command by ssh, as the remote user's shell understands it."""
        name = machine if isinstance(machine, str) else machine.name
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL} if "input" not in options else {}
        argv = ["ssh", "-F", str(self.ssh_config), name, *command]
        return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=60, **settings, **options)

    def environment(self) -> dict[str, str]:
        """The environment of this process, with `ssh`, `scp` and `sftp` that use `ssh_config` without being told."""
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def reset(self) -> None:
        for machine in self.machines:
            machine.reset()


@contextmanager
def make_machines(
    count: int = 3,
    *,
    link_bits_s: int | None = None,
    max_startups: str = "100",
    disk_bytes: int = 2**31,
    private: Sequence[Path] = (),
) -> Iterator[Cluster]:
    """Machines node1, node2 …, until the end of the block or of this process.

    `max_startups` is sshd's limit of connections that have not authenticated yet, `disk_bytes` the size of the disk of
    each machine, and `private` are more folders that a machine does not share with the controller.
    """
    assert 1 <= count <= MAX_MACHINES
    if reason := reason_without_machines():
        raise MachinesError(reason)
    home = pwd.getpwuid(0).pw_dir
    folders = _private_folders([home, "/tmp", "/var/tmp", tempfile.gettempdir(), *map(str, private)])
    request = {
        "count": count,
        "controller": os.getpid(),
        "link_bits_s": link_bits_s,
        "max_startups": max_startups,
        "disk_bytes": disk_bytes,
        "private": folders,
        "visible": _visible_paths(),
        "home": home,
        "sshd": _SSHD,
        "ip": _find("ip"),
        "tc": _find("tc"),
    }
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not end it.
    )
    try:
        reply = _ask(reaper, request)
        machines = [Machine(**made, switch=reaper.pid, home=home, folders=folders) for made in reply["machines"]]
        cluster = Cluster(machines, Path(reply["folder"]), reply["address"], reply["interface"])
        _write_ssh_files(cluster, reply["host_keys"])
        yield cluster
    finally:
        _stop(reaper)


@cache
def reason_without_machines() -> str | None:
    """Why machines cannot be made here; None if they can. Installs sshd on Debian if it is missing."""
    if sys.platform != "linux":
        return "test machines need Linux namespaces"
    if os.geteuid() != 0:
        return "test machines need root"
    for command, package in _COMMANDS.items():
        if _find(command) is None:
            return f"test machines need the command '{command}': install {package}"
    spaces = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"]
    if subprocess.run(spaces, capture_output=True).returncode:
        return "namespaces cannot be made here: a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    script = Path(__file__).with_name("install_sshd.sh")
    installed = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    if installed.returncode:
        return f"sshd cannot be installed: {(installed.stderr.strip() or 'unknown').splitlines()[-1]}"
    return None


def _find(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _private_folders(folders: Sequence[str]) -> list[str]:
    """The folders without those that are in another one of them."""
    paths = sorted({os.path.realpath(folder) for folder in folders})
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]


def _visible_paths() -> list[str]:
    """The folders of Python, its packages and the project: machines see them even if they are in a private folder."""
    source = Path(paceline.__file__).parents[1]
    wanted = {sys.prefix, sys.base_prefix, str(_PROJECT), str(source), *filter(os.path.isdir, sys.path)}
    return _private_folders(sorted(wanted))


def _ask(reaper: "subprocess.Popen[bytes]", request: dict[str, Any]) -> dict[str, Any]:
    assert reaper.stdin
    assert reaper.stdout
    with suppress(BrokenPipeError):  # If it ended at once, its missing reply is reported below.
        reaper.stdin.write(json.dumps(request).encode() + b"\n")
        reaper.stdin.flush()
    line = reaper.stdout.readline()
    reply: dict[str, Any] = json.loads(line) if line else {"error": f"the reaper ended with code {reaper.wait()}"}
    if "error" in reply:
        raise MachinesError(reply["error"])
    return reply


def _stop(reaper: "subprocess.Popen[bytes]") -> None:
    assert reaper.stdin
    assert reaper.stdout
    with suppress(BrokenPipeError):
        reaper.stdin.write(b"end\n")  # Enough even if a process forked from this one still has the pipe.
        reaper.stdin.close()
    reaper.stdout.close()
    try:
        reaper.wait(_END_S)
    except subprocess.TimeoutExpired:
        reaper.kill()
        reaper.wait()


def _write_ssh_files(cluster: Cluster, host_keys: dict[str, str]) -> None:
    known_hosts = cluster.folder / "known_hosts"
    known_hosts.write_text(
        "".join(f"{machine.address} {' '.join(host_keys[machine.name].split()[:2])}\n" for machine in cluster)
    )
    entries = [f"Host {machine.name}\n    HostName {machine.address}\n" for machine in cluster]
    entries.append(
        "Host *\n"
        "    User root\n"
        "    Port 22\n"
        f"    IdentityFile {cluster.folder / 'id.key'}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile {known_hosts}\n"
        "    GlobalKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking yes\n"
        "    ConnectTimeout 5\n"
    )
    cluster.ssh_config.write_text("".join(entries))
    (cluster.folder / "bin").mkdir()
    for command in ("ssh", "scp", "sftp"):
        wrapper = cluster.folder / "bin" / command
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which(command)} -F {cluster.ssh_config} "$@"\n')
        wrapper.chmod(0o755)
