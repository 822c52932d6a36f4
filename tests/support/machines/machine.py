"""One test machine, as the test process sees it: run commands in it, look at what is there, and break it."""

import importlib.metadata
import importlib.util
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SYSTEM = "/run/machine"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT_S = 60.0


class Process(NamedTuple):
    """A process of a machine; `pid` is its number inside."""

    pid: int
    parent: int
    name: str
    command: str
    state: str
    """One letter, as in /proc: R runs, S sleeps, T is stopped."""


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Return when the condition holds; AssertionError with `what` if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)


class Machine:
    """A machine with its own network address, host name, processes, home and temporary folders, and its own sshd.

    Its files outside of `folders` are those of the real machine, read-only.
    """

    def __init__(self, *, name: str, address: str, pid: int, switch: int, home: str, folders: Sequence[str]) -> None:
        self.name = name
        self.address = address
        self.pid = pid
        """Process 1 of the machine, by its pid outside."""
        self.home = home
        self.folders = (*folders, "/dev/shm")
        """The folders that are private to this machine and writable."""
        self._switch = switch
        self._namespace = os.readlink(f"/proc/{pid}/ns/pid")
        self._stopped: set[int] = set()
        self._hidden: list[str] = []
        self._disk_bytes = self._disk_size()
        self._own_files: set[str] = set()
        self._own_processes: dict[int, Process] = {}
        self._own_folders: tuple[str, ...] = ()
        self._own_commands: tuple[str, ...] = ()
        self.keep_what_is_there()

    def __repr__(self) -> str:
        return f"<{self.name} {self.address}>"

    # Commands and files

    def argv(self, command: Sequence[str | Path], environment: dict[str, str] | None = None) -> list[str]:
        """The command line that runs a command inside, in the home and with a login's environment."""
        variables = {"HOME": self.home, "USER": "root", "PATH": _PATH, "LANG": "C.UTF-8", **(environment or {})}
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
        enter += ["--time"] if os.path.exists("/proc/self/ns/time") else []
        pairs = [f"{name}={value}" for name, value in variables.items()]
        return [*enter, "--", "env", f"--chdir={self.home}", "-i", *pairs, *map(str, command)]

    def run(
        self, command: Sequence[str | Path], *, check: bool = True, timeout_s: float = _TIMEOUT_S, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside to its end; if it takes too long, it is killed.

        A process that it leaves in the background must not keep its output open.
        """
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL} if "input" not in options else {}
        argv = self.argv(command, options.pop("environment", None))
        # `timeout` runs inside: killing nsenter from outside would not end the command.
        split = argv.index("--") + 1
        argv[split:split] = ["timeout", "--signal=KILL", f"{timeout_s:g}"]
        settings["timeout"] = timeout_s + 5  # Reached only if something in the background keeps the output open.
        return subprocess.run(argv, capture_output=True, text=True, check=check, **settings, **options)

    def popen(
        self, command: Sequence[str | Path], environment: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start a command inside. Killing the returned process does not end the command: see `kill_processes`."""
        return subprocess.Popen(self.argv(command, environment), text=True, **options)

    def outside(self, path: str | Path) -> Path:
        """A path by which this process can read and write a file of the machine."""
        return Path(f"/proc/{self.pid}/root/{str(path).lstrip('/')}")

    # What is there

    def keep_what_is_there(self, folders: Sequence[str] = (), commands: Sequence[str] = ()) -> None:
        """Count the files and processes of this moment as parts of the machine, such as the daemons of a scheduler.

        So are later files in these folders, and later processes whose command line begins with one of these texts.
        `files` and `processes` do not list them, and `reset` leaves them alone.
        """
        self._own_folders = tuple(f"{folder}/" for folder in folders)
        self._own_commands = tuple(commands)
        self._own_files = set(self._all_files())
        self._own_processes = {process.pid: process for process in self._processes()}

    @property
    def alive(self) -> bool:
        with suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/ns/pid") == self._namespace
        return False

    def processes(self) -> list[Process]:
        """All processes inside, apart from process 1 and sshd with its sessions; empty if the machine has crashed."""
        return [process for process in self._processes() if not _is_sshd(process) and not self._is_own(process)]

    def keeps_running(self, *names: str) -> bool:
        """Whether all processes with these names that `keep_what_is_there` found are still there."""
        wanted = {process.pid for process in self._own_processes.values() if process.name in names}
        return wanted <= {process.pid for process in self._processes()}

    def sessions(self) -> list[Process]:
        """The sshd processes of open connections."""
        listener = self._sshd()
        return [process for process in self._processes() if _is_sshd(process) and process.pid != listener]

    def files(self) -> list[str]:
        """All files and folders in home, /tmp, /var/tmp and /dev/shm, apart from those that a new machine has."""
        return sorted(
            path for path in set(self._all_files()) - self._own_files if not path.startswith(self._own_folders)
        )

    def sshd_log(self) -> str:
        return self.outside(f"{SYSTEM}/sshd.log").read_text(errors="replace")

    def wait_until_idle(self, timeout_s: float = 20.0) -> None:
        """Return when no process and no connection is left; AssertionError that lists them otherwise."""
        deadline = time.monotonic() + timeout_s
        while left := [*self.processes(), *self.sessions()]:
            assert time.monotonic() < deadline, f"left on {self.name}: {[process.command for process in left]}"
            time.sleep(0.01)

    # Faults

    def cut_link(self) -> None:
        """Drop all packets between this machine and the others, without a word to either side."""
        self._set_link("down")

    def restore_link(self) -> None:
        self._set_link("up")

    def stop_answering(self) -> None:
        """Stop all processes but process 1, sshd too. The kernel still accepts connections and acknowledges data.

        For a machine that has lost its power, use `crash`.
        """
        # A process that is not stopped yet may start another one, so this looks until there is nothing to stop.
        wait_for(lambda: not self._stop_what_runs(), f"{self.name} stops")

    def thaw(self) -> None:
        """Continue the processes that `stop_answering` stopped."""
        stopped = self._stopped & self._pids_outside()
        # nsenter stops itself when its child is stopped.
        for pid in stopped | {_parent(pid) for pid in stopped} - {0, self.pid}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped = set()

    def kill_sshd_session(self) -> int:
        """Kill the sshd process of every open connection; returns how many. sshd itself goes on."""
        return self._kill(self.sessions())

    def kill_processes(self) -> int:
        """Kill everything that `processes` lists; returns how many."""
        return self._kill(self.processes())

    def stop_sshd(self) -> None:
        """End sshd, so that new connections are refused; open ones go on."""
        pid = self._sshd()
        assert pid, f"no sshd runs on {self.name}"
        self._signal({pid}, signal.SIGTERM)
        wait_for(lambda: self._sshd() is None, f"sshd of {self.name} ends")

    def start_sshd(self) -> None:
        self.run(["/usr/sbin/sshd", "-f", f"{SYSTEM}/sshd_config", "-E", f"{SYSTEM}/sshd.log"])
        wait_for(lambda: self._sshd() is not None, f"sshd of {self.name} starts")

    def crash(self) -> None:
        """Cut the link and kill everything, process 1 too: the machine is lost for good, with its files."""
        self.cut_link()
        os.kill(self.pid, signal.SIGKILL)
        wait_for(lambda: not self._pids_outside(), f"{self.name} ends")

    def fill_disk(self, leave_bytes: int = 0) -> None:
        """Let home and temporary folders have no free space, but for `leave_bytes`. /dev/shm is not on that disk."""
        used = os.statvfs(self.outside(f"{SYSTEM}/disk"))
        pages = used.f_blocks - used.f_bfree + -(-leave_bytes // used.f_bsize)
        self._set_disk_size(pages * used.f_bsize)

    def free_disk(self) -> None:
        """Undo `fill_disk`."""
        self._set_disk_size(self._disk_bytes)

    def set_bashrc(self, text: str) -> None:
        """Set ~/.bashrc, which Debian's bash reads before each command that comes by ssh."""
        self.outside(f"{self.home}/.bashrc").write_text(text)

    def hide_engine(self, module: str) -> None:
        """Hide a Python package and its metadata, as if it were not installed on this machine."""
        spec = importlib.util.find_spec(module)
        assert spec, f"{module} is not installed at all"
        assert spec.origin
        entry = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
        names = importlib.metadata.packages_distributions().get(module, [])
        metadata = [_metadata_folder(importlib.metadata.distribution(name)) for name in names]
        by_folder: dict[Path, set[str]] = {}
        for path in [entry, *metadata]:
            by_folder.setdefault(path.parent, set()).add(path.name)
        for folder, hidden in by_folder.items():
            self._hide(folder, hidden)

    def show_engines(self) -> None:
        """Undo `hide_engine`."""
        while self._hidden:
            self.run(["umount", "--lazy", self._hidden.pop()])

    def reset(self) -> None:
        """Undo all faults, end all processes and connections, and remove all files of tests."""
        assert self.alive, f"{self.name} has crashed"
        self.thaw()
        self.restore_link()
        self.free_disk()
        while self.kill_processes() + self.kill_sshd_session():
            pass
        if self._sshd() is None:
            self.start_sshd()
        self.show_engines()
        for path in reversed(self.files()):
            outside = self.outside(path)
            if outside.is_dir() and not outside.is_symlink():
                outside.rmdir()
            else:
                outside.unlink()

    def _is_own(self, process: Process) -> bool:
        return process.pid in self._own_processes or process.command.startswith(self._own_commands)

    def _hide(self, folder: Path, names: Iterable[str]) -> None:
        """Mount an overlay over a folder in which these names are deleted."""
        whiteouts = f"{SYSTEM}/hidden-{len(self._hidden)}-{time.monotonic_ns()}"
        self.outside(whiteouts).mkdir()
        for name in names:  # The sign of overlayfs for a deleted file.
            os.mknod(self.outside(whiteouts) / name, stat.S_IFCHR | 0o600, os.makedev(0, 0))
        options = f"lowerdir={whiteouts}:{folder}"
        self.run(["mount", "-t", "overlay", "-o", options, "overlay", folder])
        self._hidden.append(str(folder))

    def _processes(self) -> Iterator[Process]:
        try:
            pids = [int(name) for name in os.listdir(self.outside("/proc")) if name.isdigit()] if self.alive else []
        except OSError:
            pids = []
        for pid in pids:
            with suppress(OSError):  # It has ended meanwhile.
                process = _read_process(self.outside("/proc") / str(pid))
                if pid != 1 and process.state not in "ZX":
                    yield process

    def _sshd(self) -> int | None:
        """The pid of the sshd that listens, inside."""
        with suppress(OSError, ValueError):
            pid = int(self.outside(f"{SYSTEM}/sshd.pid").read_text())
            return pid if _is_sshd(_read_process(self.outside(f"/proc/{pid}"))) else None
        return None

    def _pids_outside(self) -> set[int]:
        """All processes of the machine, by their pids outside."""
        found = set()
        for name in os.listdir("/proc"):
            with suppress(OSError):
                if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == self._namespace:
                    found.add(int(name))
        return found

    def _stop_what_runs(self) -> set[int]:
        """Stop what is not stopped yet; returns its pids outside."""
        running = {pid for pid in self._pids_outside() - {self.pid} if _state(pid) not in "TtZX"}
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self._stopped |= running
        return running

    def _signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        """Send a signal to processes, by their pids inside."""
        wanted = set(pids)
        for pid in self._pids_outside():
            with suppress(OSError):
                if _pid_inside(pid) in wanted:
                    os.kill(pid, number)

    def _kill(self, processes: Sequence[Process]) -> int:
        pids = {process.pid for process in processes}
        if pids:
            self._signal(pids, signal.SIGKILL)
            wait_for(lambda: not pids & {process.pid for process in self._processes()}, f"{pids} of {self.name} end")
        return len(pids)

    def _all_files(self) -> Iterator[str]:
        for folder in self.folders:
            root = str(self.outside(folder))
            device = os.stat(root).st_dev
            for parent, folders, files in os.walk(root):
                # What is mounted in a private folder, such as the Python installation, belongs to the real machine.
                folders[:] = [name for name in folders if os.lstat(os.path.join(parent, name)).st_dev == device]
                yield from (os.path.join(folder, parent[len(root) + 1 :], name) for name in (*folders, *files))

    def _set_link(self, state: str) -> None:
        argv = ["nsenter", f"--net=/proc/{self._switch}/ns/net", "--", "ip", "link", "set", self.name, state]
        subprocess.run(argv, check=True, capture_output=True, text=True)

    def _disk_size(self) -> int:
        disk = os.statvfs(self.outside(f"{SYSTEM}/disk"))
        return disk.f_blocks * disk.f_bsize

    def _set_disk_size(self, size: int) -> None:
        self.run(["mount", "-o", f"remount,size={size}", f"{SYSTEM}/disk"])


def _is_sshd(process: Process) -> bool:
    return process.name.startswith("sshd")


def _read_process(folder: Path) -> Process:
    name, _, rest = (folder / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(int(folder.name), int(parent), name, command or name, state)


def _state(pid: int) -> str:
    return _state_and_parent(pid)[0]


def _parent(pid: int) -> int:
    """The parent of a process, both by their pids outside; 0 if the process has ended."""
    return int(_state_and_parent(pid)[1])


def _state_and_parent(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    return ["X", "0"]


def _pid_inside(pid: int) -> int:
    """The number that a process has in its innermost pid namespace."""
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


def _metadata_folder(distribution: importlib.metadata.Distribution) -> Path:
    return Path(str(distribution.locate_file(""))) / next(
        str(file).split("/")[0] for file in distribution.files or () if ".dist-info/" in str(file)
    )
