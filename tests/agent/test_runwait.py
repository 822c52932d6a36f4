"""How long tasks wait for a core, compared with what they measure themselves: wall time minus CPU time."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from bench.cpu_steal import stolen_s

from paceline.agent import sampler as sampler_module
from paceline.agent.counters import Deferred, LinkCounts, MachineState, ProcessCount
from paceline.agent.portable import PortableHost
from paceline.agent.sampler import Sampler
from paceline.messages import LinkCount, TaskSample
from process_io import read_line, send_line
from samples import take_sample

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts time spent waiting for a core")
# The scripts print a line when they are ready, continue for each line on stdin, and print what they measured.
BURN = """
import os, sys, time
os.sched_setaffinity(0, {core})
print("ready", flush=True)
sys.stdin.readline()
wall, cpu = time.perf_counter(), time.process_time()
while time.process_time() - cpu < 0.5: pass
print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
sys.stdin.read()
"""
BURN_IN_THREADS = """
import hashlib, os, sys, threading, time
os.sched_setaffinity(0, {core})
burnt, may_end = threading.Barrier(4), threading.Event()
def burn():
    while time.thread_time() < 0.2: hashlib.pbkdf2_hmac("sha256", b"", b"", 2000)  # does not hold the GIL
    burnt.wait()
    may_end.wait()
threads = [threading.Thread(target=burn) for _ in range(3)]
for thread in threads: thread.start()
burnt.wait()
print("burnt", flush=True)
sys.stdin.readline()
may_end.set()
for thread in threads: thread.join()
print("ended", flush=True)
sys.stdin.readline()
"""
BURN_IN_CHILDREN = """
import os, subprocess, sys
os.sched_setaffinity(0, {core})
burn = "import sys, time\\nwhile time.process_time() < 0.3: pass\\nprint('done', flush=True); sys.stdin.read()"
pipe = subprocess.PIPE
children = [subprocess.Popen([sys.executable, "-c", burn], stdin=pipe, stdout=pipe) for _ in range(3)]
for child in children: child.stdout.readline()
print("burnt", flush=True)
sys.stdin.readline()
for child in children: child.communicate()
print("ended", flush=True)
sys.stdin.readline()
"""
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts scripts, all of them on the same core of this machine."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        core = {max(os.sched_getaffinity(0))}
        argv = [sys.executable, "-c", script.replace("{core}", repr(core))]
        started.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def run_waits(sampler: Sampler) -> dict[str, float]:
    """How long each task has waited for a core up to now."""
    names = [task.task for task in take_sample(sampler).tasks]
    for name in names:
        sampler.read_final_run_wait(name)
    run_wait_s = {task.task: task.run_wait_s for task in take_sample(sampler).tasks}
    assert None not in run_wait_s.values()
    return {name: waited_s or 0.0 for name, waited_s in run_wait_s.items()}


@linux
def test_busy_processes_on_one_core_wait_while_others_run(start: Start) -> None:
    sampler = Sampler()
    workers = {f"w{number}": start(BURN) for number in range(3)}
    for name, worker in workers.items():
        assert read_line(worker) == "ready"
        sampler.add(name, worker.pid)
    before, stolen_before_s = run_waits(sampler), stolen_s()
    for worker in workers.values():
        send_line(worker)
    clocks = {name: [float(word) for word in read_line(worker).split()] for name, worker in workers.items()}
    after, stolen_meanwhile_s = run_waits(sampler), stolen_s() - stolen_before_s

    wall_s, cpu_s = (sum(clock[i] for clock in clocks.values()) for i in (0, 1))
    share = (sum(after.values()) - sum(before.values())) / wall_s
    # Each of the three has the core for a third of the time, or less if other processes use it as well.
    assert 2 / 3 - 0.08 < share < 1
    # Time that the hypervisor took away while a process was on the core is neither CPU time nor waiting.
    assert share == pytest.approx(1 - cpu_s / wall_s, abs=0.04 + stolen_meanwhile_s / wall_s)
    for name, (wall, cpu) in clocks.items():
        assert after[name] - before[name] == pytest.approx(wall - cpu, abs=0.1 * (wall - cpu) + stolen_meanwhile_s)


@linux
def test_an_idle_process_does_not_wait_for_a_core(start: Start) -> None:
    sampler = Sampler()
    idle = start("import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('still', flush=True)")
    assert read_line(idle) == "ready"
    sampler.add("w0", idle.pid)
    before = run_waits(sampler)["w0"]
    busy = [start(BURN) for _ in range(2)]
    for process in busy:
        assert read_line(process) == "ready"
        send_line(process)
    wall_s = max(float(read_line(process).split()[0]) for process in busy)
    assert run_waits(sampler)["w0"] - before < 0.01 * wall_s


@linux
@pytest.mark.parametrize("script", [BURN_IN_THREADS, BURN_IN_CHILDREN])
def test_the_waits_of_ended_threads_and_children_stay_in_the_total(start: Start, script: str) -> None:
    sampler = Sampler()
    worker = start(script)
    sampler.add("w0", worker.pid)
    assert read_line(worker) == "burnt"
    (alive,) = run_waits(sampler).values()
    cpu_s = take_sample(sampler).cpu_s
    assert alive > 0.8 * cpu_s  # 2 * cpu_s if all three start at the same time and nothing else uses the core
    send_line(worker)
    assert read_line(worker) == "ended"
    (ended,) = run_waits(sampler).values()
    assert alive <= ended < 1.5 * alive  # Ending takes a little time on the core as well.
    send_line(worker)
    worker.communicate()
    (gone,) = run_waits(sampler).values()
    assert ended <= gone < 1.5 * alive


def test_run_wait_is_none_where_the_system_does_not_count_it() -> None:
    sampler = Sampler(PortableHost())
    sampler.add("w0", os.getpid())
    (task,) = take_sample(sampler).tasks
    assert task.run_wait_s is None
    sampler.read_final_run_wait("w0")
    assert take_sample(sampler).tasks[0].run_wait_s is None


class CountingHost:
    """A host with one process; `run_wait_s` returns how often it has been called."""

    def __init__(self) -> None:
        self.run_wait_reads, self.pid = 0, 1

    def cores_busy_s(self) -> Deferred[list[float]]:
        return list

    def links(self) -> Deferred[LinkCounts]:
        return lambda: LinkCounts(LinkCount(), LinkCount())

    def machine(self) -> MachineState:
        return MachineState(None, None)

    def process(self, _pid: int) -> "CountingHost":
        return self

    def read(self) -> Deferred[ProcessCount]:
        return lambda: ProcessCount(0.0, 0, 1, 0, 0)

    def run_wait_s(self) -> float:
        self.run_wait_reads += 1
        return float(self.run_wait_reads)

    def quota_periods(self) -> None:
        """Always None: there is no CPU limit."""

    def children(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


def test_threads_are_read_once_a_second_and_before_the_task_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    host = CountingHost()
    sampler = Sampler(host)
    sampler.add("w0", 1)
    times_ns = iter(range(10**12, 2 * 10**12, 100_000_000))
    monkeypatch.setattr(sampler_module, "time", SimpleNamespace(monotonic_ns=lambda: next(times_ns)))
    samples = [take_sample(sampler).tasks for _ in range(20)]
    assert samples == [[TaskSample("w0", 0.0, 0, 1, 1.0)]] * 10 + [[TaskSample("w0", 0.0, 0, 1, 2.0)]] * 10
    sampler.read_final_run_wait("w0")
    sampler.read_final_run_wait("no such task")
    assert host.run_wait_reads == 3
