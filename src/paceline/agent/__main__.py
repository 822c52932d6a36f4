"""The agent of one host: starts tasks, samples the host and sends what was measured to the controller.

It speaks framed messages on stdin and stdout, and ends with all its tasks when its stdin closes.
"""

import argparse
import os
import platform
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

import psutil

from paceline.agent import sampling_loop, stack_dump
from paceline.agent.file_fetcher import FileFetcher
from paceline.agent.orphans import ZombieReaper, adopt_orphans, kill_all_below
from paceline.agent.sampler import Sampler
from paceline.agent.scratch import make_scratch, private_folders
from paceline.agent.tasks import RunningTask
from paceline.errors import RunError
from paceline.files.reference import cache_directory
from paceline.files.store import FileStore
from paceline.forkserver.child import was_forked
from paceline.forkserver.client import ForkServer
from paceline.messages import (
    DumpStacks,
    EnsureFiles,
    FilePart,
    Hello,
    HostSample,
    Ping,
    Pong,
    Receiver,
    Samples,
    Sender,
    SendToTask,
    Setup,
    Signal,
    StartTask,
    TaskStarted,
    ToAgent,
)
from paceline.messages.framing import write_start_marker
from paceline.messages.lease import MAX_TICK_S, Lease
from paceline.versions import code_hash, installed_version

_SETUP_S = 60
"""How long an agent waits for its first message; whole seconds."""


class Agent:
    def __init__(
        self,
        host: str,
        network: str,
        cgroups: list[str],
        to_controller: Sender,
        *,
        scratch_parent: str | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:
        self._host, self._network, self._cgroups = host, network, cgroups
        self._to_controller, self._fork_server = to_controller, fork_server
        self._scratch_parent = scratch_parent
        self._spool = Path()
        self._scratch: Path | None = None
        """The private directory of this agent; None if it shares a file system with the controller."""
        self._files: FileFetcher | None = None
        self._tasks: dict[str, RunningTask] = {}
        self._sampler = Sampler()
        self._closing = threading.Event()
        self._sampling: threading.Thread | None = None
        self._lease = Lease()
        self._zombies = ZombieReaper()

    def send_hello(self, setup: Setup) -> None:
        self._to_controller.send(
            Hello(
                host=self._host,
                pid=os.getpid(),
                cores=os.cpu_count() or 1,
                memory_bytes=psutil.virtual_memory().total,
                network=self._network,
                python=platform.python_version(),
                paceline=installed_version(["paceline"]),
                engines={name: installed_version(names) for name, names in setup.engines.items()},
                free_disk_bytes=psutil.disk_usage(str(self._spool)).free,
                machine=platform.node(),
                addresses=_addresses(),
                code=code_hash() if setup.hash_code else "",
                free_memory_bytes=psutil.virtual_memory().available,
            )
        )

    def handle(self, message: ToAgent) -> None:
        self._lease.renew()
        match message:
            case Ping(sequence):
                self._to_controller.send(Pong(sequence, time.monotonic_ns()))
            case Setup(spool, sample_hz, lease_s):
                signal.alarm(0)
                self._scratch = None if spool else make_scratch(self._scratch_parent)
                self._spool = self._scratch or Path(spool)
                self._spool.mkdir(parents=True, exist_ok=True)
                adopt_orphans()  # Not earlier: the process that removes the scratch directory must outlive the agent.
                self._files = FileFetcher(FileStore(cache_directory(), self._spool), self._to_controller)
                self.send_hello(message)
                self._sampling = threading.Thread(
                    target=self._sample_host, args=(sample_hz,), name="sampling", daemon=True
                )
                self._sampling.start()
                if lease_s:
                    threading.Thread(target=self._watch_lease, args=(lease_s,), name="lease", daemon=True).start()
            case StartTask() | SendToTask():
                if not (self._files and self._files.hold(message)):
                    self._handle_for_task(message)
            case Signal(name, number):
                self._tasks[name].signal(number)
            case EnsureFiles() if self._files:
                self._files.ensure(message)
            case FilePart() if self._files:
                self._files.receive(message)
                for held in self._files.take_held():
                    self._handle_for_task(held)
            case DumpStacks():
                # In a separate thread, so that pings are answered meanwhile.
                threading.Thread(target=self._dump_stacks, name="stacks", daemon=True).start()

    def close(self) -> None:
        """Kill all tasks; called when the controller has closed the pipe or has died."""
        for task in self._tasks.values():
            task.signal(9)
        self._closing.set()
        for task in self._tasks.values():
            task.join(timeout_s=2)
        kill_all_below()
        if self._sampling:
            self._sampling.join(timeout=1)

    def _handle_for_task(self, message: ToAgent) -> None:
        match message:
            case StartTask():
                self._start_task(message)
            case SendToTask(name, message_to_task):
                self._tasks[name].send(message_to_task)

    def _start_task(self, request: StartTask) -> None:
        task = RunningTask(
            request,
            self._spool,
            self._cgroups,
            env={**os.environ, **request.env, **self._private_folders(request.folder_variables)},
            to_controller=self._to_controller,
            before_exit=self._sampler.read_final_run_wait,
            fork_server=self._fork_server,
        )
        self._tasks[task.name] = task
        self._sampler.add(task.name, task.pid)
        self._to_controller.send(TaskStarted(task.name, task.pid))

    def _private_folders(self, variables: tuple[str, ...]) -> dict[str, str]:
        """Variables of a task's environment by which what it writes is removed at the end; empty on a shared system."""
        return private_folders(self._scratch, variables) if self._scratch else {}

    def _watch_lease(self, lease_s: float) -> None:
        """Exit after `lease_s` without a message: a connection may be dead without having been closed."""
        while not self._closing.wait(MAX_TICK_S / 2):
            if self._lease.silent_s(time.monotonic()) > lease_s:
                line = f"received no message from the controller for {lease_s:.0f} s: killing all tasks and exiting"
                print(line, file=sys.stderr, flush=True)
                for task in self._tasks.values():
                    task.signal(9)
                kill_all_below()
                os._exit(1)

    def _dump_stacks(self) -> None:
        requests = [task.stack_request() for task in list(self._tasks.values()) if task.alive]
        for stacks in stack_dump.collect_stacks(requests):
            self._to_controller.send(stacks)

    def _sample_host(self, sample_hz: float) -> None:
        try:
            sampling_loop.sample_and_ship(self._sampler, self._ship, self._closing, sample_hz)
        except Exception:
            # Exit, since an agent that no longer measures would make the run look measured.
            if not self._closing.is_set():
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    def _ship(self, samples: list[HostSample]) -> None:
        if samples:
            self._to_controller.send(Samples(samples))
        for task in list(self._tasks.values()):
            if task.alive:
                task.ship()
        self._zombies.reap({task.pid for task in list(self._tasks.values())})


def _addresses() -> tuple[str, ...]:
    """The IPv4 and IPv6 addresses of this machine, apart from those that no other machine can reach."""
    found = [address for addresses in psutil.net_if_addrs().values() for address in addresses]
    texts = [str(address.address) for address in found if address.family in (socket.AF_INET, socket.AF_INET6)]
    return tuple(text for text in texts if not text.startswith(("127.", "::1", "fe80:")))


def main() -> None:
    # If this process was forked, with the modules of tasks imported, its tasks are forked as well. Fork first, because
    # a process with threads cannot be forked safely.
    fork_server = ForkServer.fork() if was_forked() else None
    arguments = _arguments()
    _exit_without_setup()
    write_start_marker(sys.stdout.buffer)
    agent = Agent(
        arguments.host,
        arguments.network,
        arguments.cgroup,
        Sender(sys.stdout.buffer),
        scratch_parent=arguments.scratch,
        fork_server=fork_server,
    )
    from_controller = Receiver[ToAgent](sys.stdin.buffer, ToAgent)
    code = 0
    try:
        while (message := from_controller.receive()) is not None:
            agent.handle(message)
    except RunError as error:
        print(error, file=sys.stderr)
        code = 1
    except Exception:
        traceback.print_exc()
        code = 1
    try:
        agent.close()
    finally:
        sys.stderr.flush()
        # Not sys.exit: daemon threads may still write to the closed pipe and would print errors on the way out.
        os._exit(code)


def _exit_without_setup() -> None:
    """Exit if no Setup arrives in time: the lease begins only with it, and the connection may be dead by then.

    By a signal instead of a thread, because the agent forks when it handles Setup.
    """

    def exit_now(_number: int, _frame: object) -> None:
        print(f"received no Setup from the controller for {_SETUP_S} s: exiting", file=sys.stderr, flush=True)
        os._exit(1)

    signal.signal(signal.SIGALRM, exit_now)
    signal.alarm(_SETUP_S)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline.agent")
    parser.add_argument("--host", required=True)
    parser.add_argument("--network", choices=["host", "machine"], required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    parser.add_argument("--scratch", help="where to make a private directory if the controller names none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
