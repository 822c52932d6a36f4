"""The process that makes the machines of one cluster, and removes them when the test process has ended or was killed.

It reads one line of JSON from stdin, writes one to stdout and waits until stdin closes. It runs in the network
namespace that is the switch of the cluster. No namespace has a name: the kernel ends each with its last process, and
every process of a machine is killed when this one ends, even by SIGKILL. Only the folder of the cluster can be left
then; the next reaper removes it.
"""

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

CLUSTERS = Path("/run/paceline-machines")
"""One folder for each cluster, locked by its reaper. The name of the folder is the third byte of all addresses."""
_NETWORK = "10.81"  # Hosts in network namespaces use 10.80.
_LAST_NETWORK = 254
_MAX_WAIT = "50ms"  # A frame that would have to wait longer in the queue is dropped.
_END_S = 10.0


class Folder(NamedTuple):
    path: Path
    lock: int
    number: int

    def address(self, host: int) -> str:
        return f"{_NETWORK}.{self.number}.{host}"


class Started(NamedTuple):
    """The process in which `unshare` waits for process 1 of a machine, and the pid of that one."""

    waiter: "subprocess.Popen[str]"
    pid: int


def main() -> int:
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGTERM, lambda *_: None)
    request = json.loads(sys.stdin.readline() or "null")
    if request is None:  # The test process ended before it sent a request.
        return 0
    folder = _claim_folder()
    started: list[Started] = []
    try:
        print(json.dumps(_build(request, folder, started)), flush=True)
        select.select([0, told], [], [])
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        with suppress(BrokenPipeError):
            print(json.dumps({"error": f"the machines cannot be made: {error}"}), flush=True)
    finally:
        _remove(request, folder, started)
    return 0


def _claim_folder() -> Folder:
    """A new folder that no live cluster uses; those of dead clusters are removed."""
    claimed = None
    existing = {int(path.name) for path in CLUSTERS.glob("*")}
    for number in sorted(existing) + [number for number in range(1, _LAST_NETWORK + 1) if number not in existing]:
        path = CLUSTERS / str(number)
        lock = _try_to_lock(path)
        if lock is None:
            continue
        if claimed is None:
            claimed = Folder(path, lock, number)
            _empty(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
        if number not in existing:
            return claimed
    if claimed is None:
        raise SystemExit(f"all of {_LAST_NETWORK} test clusters are in use: see {CLUSTERS}")
    return claimed


def _try_to_lock(path: Path) -> int | None:
    """The lock on a folder, which is made if missing; None if a live cluster has it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # Another reaper removed it, or the folder around it, meanwhile.
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # Otherwise it was removed meanwhile.
            return descriptor
    os.close(descriptor)
    return None


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _build(request: dict[str, Any], folder: Folder, started: list[Started]) -> dict[str, Any]:
    names = [f"node{number}" for number in range(1, request["count"] + 1)]
    keys = _make_keys(folder.path, ["id", *names])
    addresses = {name: folder.address(number) for number, name in enumerate(names, 2)}
    settings = [_settings(request, keys, addresses, name) for name in names]
    _become_the_switch()
    waiters = [_start_init(folder.path, number, given) for number, given in enumerate(settings, 1)]
    started.extend(Started(waiter, int(_line_of(waiter))) for waiter in waiters)
    _connect(request, folder, dict(zip(names, (machine.pid for machine in started), strict=True)))
    for machine in started:
        assert machine.waiter.stdin
        print("connected", file=machine.waiter.stdin, flush=True)
    for machine in started:
        _line_of(machine.waiter)
    return {
        "folder": str(folder.path),
        "address": folder.address(1),
        "interface": _interface(folder),
        "host_keys": {name: _public(keys[name]) for name in names},
        "machines": [
            {"name": name, "address": addresses[name], "pid": machine.pid}
            for name, machine in zip(names, started, strict=True)
        ],
    }


def _become_the_switch() -> None:
    """Move this process into a new network namespace: the switch."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_network = 0x40000000
    if libc.unshare(new_network):
        raise OSError(ctypes.get_errno(), "no new network namespace")


def _make_keys(folder: Path, names: list[str]) -> dict[str, Path]:
    keys = {name: folder / f"{name}.key" for name in names}
    makers = [
        subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)])
        for name, path in keys.items()
    ]
    for maker in makers:
        if maker.wait():
            raise RuntimeError("ssh-keygen failed")
    return keys


def _public(key: Path) -> str:
    return Path(f"{key}.pub").read_text()


def _settings(request: dict[str, Any], keys: dict[str, Path], addresses: dict[str, str], name: str) -> dict[str, Any]:
    """What process 1 of a machine needs to know; see `init.py`."""
    names_of_all = [f"{address} {machine}" for machine, address in addresses.items()]
    return {
        **{key: request[key] for key in ("disk_bytes", "private", "visible", "home", "sshd", "ip", "tc")},
        "name": name,
        "address": addresses[name],
        "authorized_key": _public(keys["id"]),
        "host_key": keys[name].read_text(),
        "queue": _queue(request["link_bits_s"]),
        "sshd_config": _sshd_config(request, addresses[name]),
        "files": {
            "/proc/sys/kernel/random/boot_id": f"{uuid.uuid4()}\n",
            "/etc/hosts": "\n".join(["127.0.0.1 localhost", *names_of_all, ""]),
            "/etc/hostname": f"{name}\n",
            "/etc/machine-id": f"{uuid.uuid4().hex}\n",
            # Nothing answers: a look-up of an unknown name fails at once, not after a time-out.
            "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
            # Without PAM, sshd refuses an account whose password is locked with '!'.
            "/etc/shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n",
        },
    }


def _sshd_config(request: dict[str, Any], address: str) -> str:
    options = {
        "ListenAddress": address,
        "HostKey": "/run/machine/ssh_host_ed25519_key",
        "PidFile": "/run/machine/sshd.pid",
        "AuthorizedKeysFile": ".ssh/authorized_keys",
        "AuthenticationMethods": "publickey",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "UsePAM": "no",
        "UseDNS": "no",
        "AcceptEnv": "LANG LC_*",
        "Subsystem": "sftp internal-sftp",
        "LogLevel": "VERBOSE",
        "MaxStartups": request["max_startups"],
    }
    return "".join(f"{name} {value}\n" for name, value in options.items())


def _start_init(folder: Path, number: int, settings: dict[str, Any]) -> "subprocess.Popen[str]":
    # If this process dies, unshare is killed, and with it process 1 of the machine: the kernel then kills the rest.
    argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", "--pid", "--net", "--mount"]
    argv += ["--uts", "--ipc"]
    if Path("/proc/self/ns/time").exists():
        seconds = str(number * 1000)
        argv += ["--time", "--monotonic", seconds, "--boottime", seconds]
    argv += ["--", sys.executable, "-I", "-S", str(Path(__file__).with_name("init.py"))]
    pipe = subprocess.PIPE
    with (folder / f"{settings['name']}.log").open("w") as log:
        waiter = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=log, text=True, cwd="/")
    assert waiter.stdin
    print(json.dumps(settings), file=waiter.stdin, flush=True)
    return waiter


def _line_of(waiter: "subprocess.Popen[str]") -> str:
    assert waiter.stdout
    line = waiter.stdout.readline().strip()
    if not line or line.startswith("error"):
        raise RuntimeError(line or f"process 1 of a machine ended with code {waiter.wait()}")
    return line


def _connect(request: dict[str, Any], folder: Folder, pids: dict[str, int]) -> None:
    """Join the machines and the namespace of the test process by a bridge."""
    outside = _interface(folder)
    lines = ["link add bridge0 type bridge mcast_snooping 0", "link set bridge0 addrgenmode none up"]
    lines += [f"link add {outside} type veth peer name {outside} netns {request['controller']}"]
    lines += [f"link add {name} type veth peer name eth0 netns {pid}" for name, pid in pids.items()]
    lines += [f"link set {name} addrgenmode none master bridge0 up" for name in (outside, *pids)]
    _batch([request["ip"]], lines)
    if queue := _queue(request["link_bits_s"]):
        _batch([request["tc"]], [f"qdisc add dev {name} root {queue}" for name in pids])
    enter = ["nsenter", f"--net=/proc/{request['controller']}/ns/net", "--", request["ip"]]
    _batch(enter, [f"link set {outside} addrgenmode none up", f"address add {folder.address(1)}/24 dev {outside}"])


def _interface(folder: Folder) -> str:
    return f"plm{folder.number}"


def _queue(bits_s: int | None) -> str:
    """The `tc` queue that limits a link to a rate; empty without a limit."""
    if bits_s is None:
        return ""
    return f"tbf rate {bits_s}bit burst {max(10_000, bits_s // 8 // 500)} latency {_MAX_WAIT}"


def _batch(argv: list[str], lines: list[str]) -> None:
    done = subprocess.run([*argv, "-batch", "-"], input="\n".join(lines), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split()))


def _remove(request: dict[str, Any], folder: Folder, started: list[Started]) -> None:
    for machine in started:
        with suppress(ProcessLookupError):
            os.kill(machine.pid, signal.SIGKILL)
        machine.waiter.send_signal(signal.SIGCONT)  # unshare stops itself when process 1 is stopped.
    for machine in started:
        machine.waiter.wait(_END_S)  # It ends after process 1, which ends after all other processes of the machine.
    # Otherwise the other end would vanish with this namespace, a moment after this process.
    subprocess.run([request["ip"], "link", "delete", _interface(folder)], stderr=subprocess.DEVNULL)
    shutil.rmtree(folder.path, ignore_errors=True)
    with suppress(OSError):  # Other clusters use it.
        CLUSTERS.rmdir()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main())
