"""What limits one controller: many hosts whose agents are simulated, each with a worker that makes steps.

A process of its own answers for all agents, with the same messages over the same kind of pipes as real agents send: ten
samples a second, a record for each step, both shipped together as often as a real agent ships. The controller is
the real one, with its files. It keeps up if it handles messages as quickly as they come.
"""

import heapq
import os
import platform
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import psutil
from rich.table import Table

from bench.measure import console
from paceline import available, messages, pipeline
from paceline.agent.sampling_loop import SHIP_EVERY_S
from paceline.control.cluster import Cluster
from paceline.control.interrupts import Interrupts
from paceline.control.run_controller import RunController
from paceline.control.run_state import RunState
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.hosts.base import AgentPipes, Condition
from paceline.messages.framing import write_start_marker
from paceline.plan import layout as layouts
from paceline.plan.place import place
from paceline.recording.layout import STEP_PHASES, RecordKind
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.store.header import ResumePoint
from paceline.store.writer import RunWriter
from paceline.train.context import Outcome
from paceline.versions import installed_version

_SAMPLE_HZ = 10.0
_STEPS_PER_S = 100
_CORES = 16
"""Of each simulated machine: a sample has a counter for each core."""
_TRAIN_S = 20.0


class FleetResult(msgspec.Struct, frozen=True):
    hosts: int
    start_s: float
    """Until the barrier opened."""
    steps_per_s: float
    """Steps that the controller stored in a second of the training."""
    lag_s: float
    """The longest time that a message waited in the controller's queue, by the length of the queue."""
    cores: float
    memory_mb: float


def fake_agents(rounds: int) -> None:
    """Measure the controller with more and more simulated hosts."""
    table = Table(
        "hosts", "start (s)", "steps/s sent", "steps/s stored", "longest queue (s)", "controller CPU (cores)",
        "controller memory (MB)", title="One controller, simulated agents: 10 samples/s and 100 steps/s per host",
        title_justify="left", box=None,
    )  # fmt: skip
    for hosts in (100, 300, 1000):
        for _ in range(rounds):
            result = measure_fleet(hosts)
            table.add_row(
                str(hosts), f"{result.start_s:.1f}", f"{hosts * _STEPS_PER_S:,}", f"{result.steps_per_s:,.0f}",
                f"{result.lag_s:.2f}", f"{result.cores:.2f}", f"{result.memory_mb:,.0f}",
            )  # fmt: skip
            console.print(f"  {result}", style="dim")
    console.print(table)


def measure_fleet(hosts: int, train_s: float = _TRAIN_S) -> FleetResult:
    """One run of the real controller with that many simulated hosts."""
    _raise_file_limit()
    layouts.MAX_HOSTS, layouts.MAX_TASKS = hosts, hosts + 1  # More than users may ask for.
    layout = " ".join(["pw", *["w"] * (hosts - 1)])
    fields = {
        "workload": "logreg",
        "engine": "torch",
        "strategy": "ps-async",
        "layout": layout,
        "stop": ["steps=1000000000"],
        "batch": 10,
    }
    (plan,) = [place(spec, available.catalog({spec.workload}, {spec.hosts})) for spec in expand(experiment(fields))]
    data = PreparedData(paths=(), source="none", synthetic=True)
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs:
        writer = RunWriter(Path(runs), "fleet", plan)
        writer.write_header(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=writer.clock_zero_ns))
        names = [limits.host for limits in plan.limits]
        with _fleet(names, train_s) as agents:
            began_s = time.monotonic()
            cluster = Cluster(agents, writer.paths.logs, writer.paths.spool, messages.Setup("", _SAMPLE_HZ, 20.0))
            controller = RunController(plan, data, writer, cluster, agents, ResumePoint())
            watch = _Watch(cluster, began_s)
            try:
                end = controller.run(Interrupts(), watch)
            finally:
                cluster.close()
                controller.drain()
        assert end.status == "ok", end
        stored = int(watch.steps_per_s() or 0)
        writer.release()
    return FleetResult(hosts, watch.start_s, stored, watch.longest_wait_s, watch.cores(), watch.memory_mb)


class _Watch:
    """Called by the controller with the state of the run; measures the controller's process from the inside."""

    def __init__(self, cluster: Cluster, began_s: float) -> None:
        self._cluster, self._began_s, self._process = cluster, began_s, psutil.Process()
        self.start_s = 0.0
        self.longest_wait_s = self.memory_mb = 0.0
        self._seen: list[tuple[float, float, int]] = []
        """Time, CPU seconds and steps, at every call during the training."""

    def __call__(self, state: RunState) -> None:
        now_s = time.monotonic()
        self.memory_mb = max(self.memory_mb, self._process.memory_info().rss / 1e6)
        if state.stage != "training":
            return
        self.start_s = self.start_s or now_s - self._began_s
        self._seen.append((now_s, time.process_time(), sum(worker.steps for worker in state.workers.values())))
        messages_per_s = 2 * len(state.workers) / SHIP_EVERY_S
        self.longest_wait_s = max(self.longest_wait_s, self._cluster.inbox.qsize() / messages_per_s)

    def _steady(self) -> tuple[tuple[float, float, int], tuple[float, float, int]]:
        """The first and last measurement of the middle of the training, in which every agent sends."""
        begin_s, end_s = self._seen[0][0] + 2 * SHIP_EVERY_S, self._seen[-1][0] - 2 * SHIP_EVERY_S
        steady = [seen for seen in self._seen if begin_s <= seen[0] <= end_s]
        return steady[0], steady[-1]

    def cores(self) -> float:
        first, last = self._steady()
        return (last[1] - first[1]) / (last[0] - first[0])

    def steps_per_s(self) -> float:
        first, last = self._steady()
        return (last[2] - first[2]) / (last[0] - first[0])


class _FakeHost:
    """Implements Host: its agent is part of the fleet's process."""

    ports = None

    def __init__(self, name: str, stdin: int, stdout: int) -> None:
        self.name, self.address = name, "127.0.0.1"
        self._agent = _FakeAgent(os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))

    def start_agent(self, log: Path) -> AgentPipes:
        return self._agent

    def apply_condition(self, condition: Condition) -> None:
        raise NotImplementedError


class _FakeAgent:
    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin, self.stdout = stdin, stdout

    def wait(self, timeout_s: float) -> bool:
        return True

    def kill(self) -> None:
        """Do nothing: the fleet ends when its pipes are closed."""


@contextmanager
def _fleet(names: Sequence[str], train_s: float) -> Iterator[list[_FakeHost]]:
    """A process that answers for the agents of these hosts."""
    hosts, ends = list[_FakeHost](), list[tuple[str, int, int]]()
    for name in names:
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        hosts.append(_FakeHost(name, down_write, up_read))
        ends.append((name, down_read, up_write))
    descriptors = [number for _, *pair in ends for number in pair]
    request = msgspec.json.encode({"ends": ends, "train_s": train_s})
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.fake_agents"], stdin=subprocess.PIPE, pass_fds=descriptors, close_fds=True
    )
    assert process.stdin
    for number in descriptors:
        os.close(number)
    process.stdin.write(request)
    process.stdin.close()
    try:
        yield hosts
    finally:
        process.wait(30)


class _SimulatedAgent:
    """One agent in the fleet's process, with its task or tasks."""

    def __init__(self, name: str, stdin: int, stdout: int, train_s: float) -> None:
        self._name, self._train_s = name, train_s
        self.input = os.fdopen(stdin, "rb", buffering=0)
        self._output = os.fdopen(stdout, "wb")
        self._commands = messages.Receiver[messages.ToAgent](self.input, messages.ToAgent)
        self._sender = messages.Sender(self._output)
        self._tasks: list[str] = []
        self._step = 0
        self._began_s: float | None = None
        write_start_marker(self._output)

    def handle(self) -> bool:
        """Answer the next message; False if the controller has closed the pipe."""
        message = self._commands.receive()
        match message:
            case messages.Setup():
                self._sender.send(_hello(self._name))
            case messages.Ping(sequence):
                self._sender.send(messages.Pong(sequence, time.monotonic_ns()))
            case messages.StartTask(task):
                self._tasks.append(task)
                self._sender.send(messages.TaskStarted(task, 1))
                self._sender.send(messages.TaskMessage(task, messages.Bound({})))
            case messages.SendToTask(task, messages.Peers()):
                self._sender.send(messages.TaskMessage(task, messages.Ready()))
            case messages.SendToTask(task, messages.Go()) if task.startswith("w"):
                self._began_s = time.monotonic()
            case messages.SendToTask(task, messages.Halt()):
                self._finish(task)
        return message is not None

    def ship(self) -> None:
        """Send what a real agent sends at once."""
        now_ns = time.monotonic_ns()
        samples = [_sample(now_ns, self._tasks) for _ in range(int(_SAMPLE_HZ * SHIP_EVERY_S))]
        self._sender.send(messages.Samples(samples))
        if self._began_s is None:
            return
        worker = next(task for task in self._tasks if task.startswith("w"))
        self._sender.send(messages.Records(worker, self._records(now_ns)))
        if time.monotonic() - self._began_s >= self._train_s:
            self._began_s = None
            self._finish(worker)

    def _records(self, now_ns: int) -> bytes:
        records = _RECORDS.copy()
        records["step"] += self._step
        records["update"] += self._step
        self._step += len(records)
        for name in ("start_ns", "end_ns", "data_end_ns", "phases"):
            records[name] += np.uint64(now_ns)
        return records.tobytes()

    def _finish(self, task: str) -> None:
        outcome = Outcome(steps=self._step, started_ns=1, ended_ns=time.monotonic_ns(), updates=self._step, loss=0.5)
        self._sender.send(messages.TaskMessage(task, messages.Finished(msgspec.Raw(msgspec.msgpack.encode(outcome)))))
        self._sender.send(messages.TaskExited(task, 0, time.monotonic_ns()))


def _new_records() -> "np.ndarray[Any, Any]":
    """The steps of one shipment, beginning at time 0."""
    steps = np.arange(int(_STEPS_PER_S * SHIP_EVERY_S))
    records = np.zeros(len(steps), RECORD_DTYPE)
    step_ns = 10**9 // _STEPS_PER_S
    records["kind"], records["step"], records["update"] = RecordKind.STEP, steps, steps + 1
    records["start_ns"], records["end_ns"] = steps * step_ns, (steps + 1) * step_ns
    records["data_end_ns"] = records["start_ns"] + 1000
    records["phases"][:, STEP_PHASES.index(RecordKind.COMPUTE), 0] = records["start_ns"] + 2000
    records["phases"][:, STEP_PHASES.index(RecordKind.COMPUTE), 1] = records["end_ns"] - 2000
    records["loss"], records["staleness"] = 0.5, 3
    return records


_RECORDS = _new_records()


def _hello(host: str) -> messages.Hello:
    return messages.Hello(
        host,
        pid=1,
        cores=_CORES,
        memory_bytes=2**36,
        network="host",
        python=platform.python_version(),
        paceline=installed_version(["paceline"]),
        engines={name: engine.version for name, engine in engines().items()},
    )


def _sample(now_ns: int, tasks: Sequence[str]) -> messages.HostSample:
    count = messages.LinkCount(now_ns // 1000, now_ns // 1000, now_ns // 10**6, now_ns // 10**6)
    used = [messages.TaskSample(task, now_ns / 1e9, 2**29, 20, now_ns / 1e10) for task in tasks]
    return messages.HostSample(now_ns, now_ns / 1e9, [now_ns / 1e9] * _CORES, 2**29, count, count, 0, 0, used)


def _raise_file_limit() -> None:
    """The pipes of 1,000 agents are more files than most systems allow by default."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _serve_fleet() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read())
    selector = selectors.DefaultSelector()
    due: list[tuple[float, int, _SimulatedAgent]] = []
    now_s = time.monotonic()
    for number, (name, stdin, stdout) in enumerate(request["ends"]):
        agent = _SimulatedAgent(name, stdin, stdout, request["train_s"])
        selector.register(agent.input, selectors.EVENT_READ, agent)
        # Spread over the interval, as agents that started one after the other are.
        heapq.heappush(due, (now_s + SHIP_EVERY_S * number / len(request["ends"]), number, agent))
    open_pipes = len(due)
    while open_pipes:
        for key, _ in selector.select(max(0.0, due[0][0] - time.monotonic()) if due else None):
            if not key.data.handle():
                selector.unregister(key.fileobj)
                open_pipes -= 1
                due = []
        while due and due[0][0] <= time.monotonic():
            at_s, number, agent = due[0]
            agent.ship()
            heapq.heapreplace(due, (at_s + SHIP_EVERY_S, number, agent))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        _serve_fleet()
