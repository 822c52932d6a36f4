"""The agent of one host: starts tasks, samples the host, ships what was measured. Ends when its stdin closes."""

import argparse
import os
import sys
import threading
import time
import traceback
from pathlib import Path

import psutil

from paceline.agent import sampling_loop, stack_dump
from paceline.agent.lease import MOST_BETWEEN_LOOKS_S, Lease
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


class Agent:
    def __init__(self, host: str, network: str, cgroups: list[str], up: Sender) -> None:
        self._host, self._network, self._cgroups, self._up = host, network, cgroups, up
        self._spool = Path()
        self._tasks: dict[str, RunningTask] = {}
        self._sampler = Sampler()
        self._closing = threading.Event()
        self._watch: threading.Thread | None = None
        self._lease = Lease()

    def greet(self) -> None:
        memory = psutil.virtual_memory().total
        self._up.send(Hello(self._host, os.getpid(), os.cpu_count() or 1, memory, self._network))

    def handle(self, message: ToAgent) -> None:
        self._lease.renew()
        match message:
            case Ping(sequence):
                self._up.send(Pong(sequence, time.monotonic_ns()))
            case Setup(spool, sample_hz, lease_s):
                self._spool = Path(spool)
                self._spool.mkdir(parents=True, exist_ok=True)
                self._watch = threading.Thread(target=self._watch_host, args=(sample_hz,), name="watch", daemon=True)
                self._watch.start()
                if lease_s:
                    threading.Thread(target=self._hold_lease, args=(lease_s,), name="lease", daemon=True).start()
            case StartTask():
                env = {**os.environ, **message.env}
                task = RunningTask(message, self._spool, self._cgroups, env, self._up, self._sampler.settle)
                self._tasks[task.name] = task
                self._sampler.add(task.name, task.pid)
                self._up.send(TaskStarted(task.name, task.pid))
            case SendToTask(name, order):
                self._tasks[name].tell(order)
            case Signal(name, number):
                self._tasks[name].signal(number)
            case DumpStacks():
                # In a thread of its own: pings are answered meanwhile.
                threading.Thread(target=self._dump_stacks, name="stacks", daemon=True).start()

    def close(self) -> None:
        """The controller is done or gone: so are all tasks, at once."""
        for task in self._tasks.values():
            task.signal(9)
        self._closing.set()
        for task in self._tasks.values():
            task.join(timeout_s=2)
        if self._watch:
            self._watch.join(timeout=1)

    def _hold_lease(self, lease_s: float) -> None:
        """A connection may be dead without having been closed: who hears nothing for long is on his own."""
        while not self._closing.wait(MOST_BETWEEN_LOOKS_S / 2):
            if self._lease.silent_s(time.monotonic()) > lease_s:
                print(f"heard nothing from the controller for {lease_s:.0f} s", file=sys.stderr, flush=True)
                for task in self._tasks.values():
                    task.signal(9)
                os._exit(1)

    def _dump_stacks(self) -> None:
        alive = [task for task in list(self._tasks.values()) if task.alive]
        for found in stack_dump.stacks_of([task.asked_for_stacks() for task in alive]):
            self._up.send(found)

    def _watch_host(self, sample_hz: float) -> None:
        try:
            sampling_loop.sample_and_ship(self._sampler, self._ship, self._closing, sample_hz)
        except Exception:
            # An agent that no longer measures must not look alive.
            if not self._closing.is_set():
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    def _ship(self, samples: list[HostSample]) -> None:
        if samples:
            self._up.send(Samples(samples))
        for task in list(self._tasks.values()):
            if task.alive:
                task.ship()


def main() -> None:
    arguments = _arguments()
    up = Sender(sys.stdout.buffer)
    agent = Agent(arguments.host, arguments.network, arguments.cgroup, up)
    commands = Receiver[ToAgent](sys.stdin.buffer, ToAgent)
    code = 0
    try:
        agent.greet()
        while (message := commands.receive()) is not None:
            agent.handle(message)
    except Exception:
        traceback.print_exc()
        code = 1
    try:
        agent.close()
    finally:
        sys.stderr.flush()
        # Daemon threads may still write to the closed pipe; there is nothing more to say.
        os._exit(code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline.agent")
    parser.add_argument("--host", required=True)
    parser.add_argument("--network", choices=["host", "machine"], required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
