"""Process 1 of a test machine: makes its file systems, network and sshd, then reaps orphans until it is killed.

It is started in new namespaces by `reaper.py`, reads its settings as one line of JSON from stdin, and uses only the
standard library, because the machine does not show site-packages to `python -S`.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SYSTEM = Path("/run/machine")
"""Files of the machine itself, which belong to no test."""
DISK = SYSTEM / "disk"
"""A tmpfs with limited size that holds the home and all temporary folders."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_RDONLY, _REMOUNT, _BIND, _REC = 0x1, 0x20, 0x1000, 0x4000
_SHM_BYTES = 2**30


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    # /proc is still that of the outer pid namespace, so this is the pid by which others know this process.
    print(os.readlink("/proc/self"), flush=True)
    socket.sethostname(settings["name"])
    _make_file_systems(settings)
    _write_home(settings)
    sys.stdin.readline()  # The reaper has plugged in the cable.
    _configure_network(settings)
    _start_sshd(settings)
    print("ready", flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    _reap_forever()


def _make_file_systems(settings: dict[str, Any]) -> None:
    for point in _mount_points():
        if not point.startswith(("/proc", "/sys", "/dev")):
            _mount(None, point, flags=_REMOUNT | _BIND | _RDONLY)
    _mount("tmpfs", "/run", "tmpfs", options="mode=755,size=64m")
    DISK.mkdir(parents=True)
    _mount("tmpfs", str(DISK), "tmpfs", options=f"mode=755,size={settings['disk_bytes']}")
    for number, folder in enumerate(settings["private"]):
        _replace_by_folder_of_disk(folder, DISK / str(number), settings["visible"])
    _mount("tmpfs", "/dev/shm", "tmpfs", options=f"mode=1777,size={_SHM_BYTES}")
    _mount("proc", "/proc", "proc")
    _mount_sys()
    for path, text in settings["files"].items():
        _replace_file(path, text)


def _mount_points() -> list[str]:
    """All mount points that can be reached; a mount point may occur twice."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if os.path.ismount(point)]


def _replace_by_folder_of_disk(folder: str, source: Path, visible: list[str]) -> None:
    """Mount an empty folder over `folder`, but keep the visible paths in it, read-only."""
    source.mkdir()
    source.chmod(os.stat(folder).st_mode & 0o7777)
    for path in visible:
        if Path(folder) in Path(path).parents:
            inside = source / Path(path).relative_to(folder)
            inside.mkdir(parents=True, exist_ok=True)
            _mount(path, str(inside), flags=_BIND)
            _mount(None, str(inside), flags=_REMOUNT | _BIND | _RDONLY)
    _mount(str(source), folder, flags=_BIND | _REC)


def _mount_sys() -> None:
    """A /sys that shows the network interfaces of this machine, with the cgroups of the outer one."""
    groups = SYSTEM / "cgroup"
    groups.mkdir()
    _mount("/sys/fs/cgroup", str(groups), flags=_BIND | _REC)
    _mount("sysfs", "/sys", "sysfs", flags=_RDONLY)
    _mount(str(groups), "/sys/fs/cgroup", flags=_BIND | _REC)


def _replace_file(path: str, text: str) -> None:
    """Show other content in a system file; what does not exist on this system stays missing."""
    if os.path.isfile(path) and not os.path.islink(path):
        source = SYSTEM / path.strip("/").replace("/", "-")
        source.write_text(text)
        _mount(str(source), path, flags=_BIND)


def _write_home(settings: dict[str, Any]) -> None:
    keys = Path(settings["home"]) / ".ssh"
    keys.mkdir(mode=0o700)
    (keys / "authorized_keys").write_text(settings["authorized_key"])


def _configure_network(settings: dict[str, Any]) -> None:
    # With addrgenmode none, interfaces get no IPv6 address and send nothing by themselves.
    address = f"{settings['address']}/24"
    lines = ["link set lo up", "link set eth0 addrgenmode none up", f"address add {address} dev eth0"]
    subprocess.run([settings["ip"], "-batch", "-"], input="\n".join(lines), text=True, check=True)
    if settings["queue"]:
        subprocess.run([settings["tc"], *f"qdisc add dev eth0 root {settings['queue']}".split()], check=True)


def _start_sshd(settings: dict[str, Any]) -> None:
    Path("/run/sshd").mkdir(mode=0o755)
    key = SYSTEM / "ssh_host_ed25519_key"
    key.touch(0o600)
    key.write_text(settings["host_key"])
    (SYSTEM / "sshd_config").write_text(settings["sshd_config"])
    subprocess.run([settings["sshd"], "-f", SYSTEM / "sshd_config", "-E", SYSTEM / "sshd.log"], check=True)
    while not (SYSTEM / "sshd.pid").exists():  # sshd writes it when it listens.
        time.sleep(0.002)


def _reap_forever() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # Only now: sshd must not inherit it.
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.sigwait({signal.SIGCHLD})


def _mount(source: str | None, target: str, kind: str | None = None, *, flags: int = 0, options: str = "") -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    if _LIBC.mount(*texts, ctypes.c_ulong(flags), options.encode()):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"mount {source} on {target}")


if __name__ == "__main__":
    try:
        main()
    except Exception as failure:
        print(f"error: {failure}", flush=True)
        raise
