"""The agent of one host: starts tasks, samples the host and sends what was measured to the controller.

It speaks framed messages on stdin and stdout, and ends with all its tasks when its stdin closes.
"""

import argparse
import os
import platform
import sys
import threading
import time
import traceback
from pathlib import Path

import psutil

from paceline.agent import sampling_loop, stack_dump
from paceline.agent.sampler import Sampler
from paceline.agent.tasks import RunningTask
from paceline.messages import (
    DumpStacks,
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
from paceline.messages.lease import MAX_TICK_S, Lease
from paceline.versions import installed_version


class Agent:
    def __init__(self, host: str, network: str, cgroups: list[str], to_controller: Sender) -> None:
        self._host, self._network, self._cgroups = host, network, cgroups
        self._to_controller = to_controller
        self._spool = Path()
        self._tasks: dict[str, RunningTask] = {}
        self._sampler = Sampler()
        self._closing = threading.Event()
        self._sampling: threading.Thread | None = None
        self._lease = Lease()

    def send_hello(self, distributions: tuple[str, ...]) -> None:
        self._to_controller.send(
            Hello(
                host=self._host,
                pid=os.getpid(),
                cores=os.cpu_count() or 1,
                memory_bytes=psutil.virtual_memory().total,
                network=self._network,
                python=platform.python_version(),
                paceline=installed_version(["paceline"]),
                engine=installed_version(distributions) if distributions else None,
                free_disk_bytes=psutil.disk_usage(str(self._spool)).free,
            )
        )

    def handle(self, message: ToAgent) -> None:
        self._lease.renew()
        match message:
            case Ping(sequence):
                self._to_controller.send(Pong(sequence, time.monotonic_ns()))
            case Setup(spool, sample_hz, lease_s, distributions):
                self._spool = Path(spool)
                self._spool.mkdir(parents=True, exist_ok=True)
                self.send_hello(distributions)
                self._sampling = threading.Thread(
                    target=self._sample_host, args=(sample_hz,), name="sampling", daemon=True
                )
                self._sampling.start()
                if lease_s:
                    threading.Thread(target=self._watch_lease, args=(lease_s,), name="lease", daemon=True).start()
            case StartTask():
                self._start_task(message)
            case SendToTask(name, message_to_task):
                self._tasks[name].send(message_to_task)
            case Signal(name, number):
                self._tasks[name].signal(number)
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
        if self._sampling:
            self._sampling.join(timeout=1)

    def _start_task(self, request: StartTask) -> None:
        task = RunningTask(
            request,
            self._spool,
            self._cgroups,
            env={**os.environ, **request.env},
            to_controller=self._to_controller,
            before_exit=self._sampler.read_final_run_wait,
        )
        self._tasks[task.name] = task
        self._sampler.add(task.name, task.pid)
        self._to_controller.send(TaskStarted(task.name, task.pid))

    def _watch_lease(self, lease_s: float) -> None:
        """Exit after `lease_s` without a message: a connection may be dead without having been closed."""
        while not self._closing.wait(MAX_TICK_S / 2):
            if self._lease.silent_s(time.monotonic()) > lease_s:
                line = f"received no message from the controller for {lease_s:.0f} s: killing all tasks and exiting"
                print(line, file=sys.stderr, flush=True)
                for task in self._tasks.values():
                    task.signal(9)
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


def main() -> None:
    arguments = _arguments()
    agent = Agent(arguments.host, arguments.network, arguments.cgroup, Sender(sys.stdout.buffer))
    from_controller = Receiver[ToAgent](sys.stdin.buffer, ToAgent)
    code = 0
    try:
        while (message := from_controller.receive()) is not None:
            agent.handle(message)
    except Exception:
        traceback.print_exc()
        code = 1
    try:
        agent.close()
    finally:
        sys.stderr.flush()
        # Not sys.exit: daemon threads may still write to the closed pipe and would print errors on the way out.
        os._exit(code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline.agent")
    parser.add_argument("--host", required=True)
    parser.add_argument("--network", choices=["host", "machine"], required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
