"""What tasks wait for a core, against what they themselves see: time that passed and was not spent on one."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from bench.quiet import stolen_s

from paceline.agent import sampler as sampler_module
from paceline.agent.counters import Deferred, Links, ProcessCount
from paceline.agent.portable import PortableHost
from paceline.agent.sampler import Sampler
from paceline.messages import LinkCount, TaskSample
from samples import sample_of
from talk import said, tell

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it")
# Scripts say a line when they are there, do the next thing for each line they are told, and say what it took.
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
burnt, leave = threading.Barrier(4), threading.Event()
def burn():
    while time.thread_time() < 0.2: hashlib.pbkdf2_hmac("sha256", b"", b"", 2000)  # without the lock of Python
    burnt.wait()
    leave.wait()
threads = [threading.Thread(target=burn) for _ in range(3)]
for thread in threads: thread.start()
burnt.wait()
print("burnt", flush=True)
sys.stdin.readline()
leave.set()
for thread in threads: thread.join()
print("left", flush=True)
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
print("left", flush=True)
sys.stdin.readline()
"""
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script on one core of this machine, always the same one."""
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
    """As a look at all threads this moment finds them."""
    names = [task.task for task in sample_of(sampler).tasks]
    for name in names:
        sampler.settle(name)
    found = {task.task: task.run_wait_s for task in sample_of(sampler).tasks}
    assert None not in found.values()
    return {name: waited or 0.0 for name, waited in found.items()}


@linux
def test_busy_processes_on_one_core_wait_while_the_others_run(start: Start) -> None:
    sampler = Sampler()
    workers = {f"w{number}": start(BURN) for number in range(3)}
    for name, worker in workers.items():
        assert said(worker) == "ready"
        sampler.add(name, worker.pid)
    before, stolen_before_s = run_waits(sampler), stolen_s()
    for worker in workers.values():
        tell(worker)
    clocks = {name: [float(word) for word in said(worker).split()] for name, worker in workers.items()}
    after, lost_s = run_waits(sampler), stolen_s() - stolen_before_s

    wall_s, cpu_s = (sum(clock[i] for clock in clocks.values()) for i in (0, 1))
    share = (sum(after.values()) - sum(before.values())) / wall_s
    # Each of three has the core a third of the time, or less if others are on it as well.
    assert 2 / 3 - 0.08 < share < 1
    # What the machine below took away while one was on the core is neither work nor waiting in line.
    assert share == pytest.approx(1 - cpu_s / wall_s, abs=0.04 + lost_s / wall_s)
    for name, (wall, cpu) in clocks.items():
        assert after[name] - before[name] == pytest.approx(wall - cpu, abs=0.1 * (wall - cpu) + lost_s)


@linux
def test_an_idle_process_waits_for_no_core(start: Start) -> None:
    sampler = Sampler()
    idle = start("import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('still', flush=True)")
    assert said(idle) == "ready"
    sampler.add("w0", idle.pid)
    before = run_waits(sampler)["w0"]
    busy = [start(BURN) for _ in range(2)]
    for one in busy:
        assert said(one) == "ready"
        tell(one)
    wall_s = max(float(said(one).split()[0]) for one in busy)
    assert run_waits(sampler)["w0"] - before < 0.01 * wall_s


@linux
@pytest.mark.parametrize("script", [BURN_IN_THREADS, BURN_IN_CHILDREN])
def test_what_threads_and_children_waited_stays_after_their_end(start: Start, script: str) -> None:
    sampler = Sampler()
    worker = start(script)
    sampler.add("w0", worker.pid)
    assert said(worker) == "burnt"
    (alive,) = run_waits(sampler).values()
    cpu_s = sample_of(sampler).cpu_s
    assert alive > 0.8 * cpu_s  # twice as much if all three begin at once and nobody else is on the core
    tell(worker)
    assert said(worker) == "left"
    (left,) = run_waits(sampler).values()
    assert alive <= left < 1.5 * alive  # to end takes a little time on the core as well
    tell(worker)
    worker.communicate()
    (gone,) = run_waits(sampler).values()
    assert left <= gone < 1.5 * alive


def test_where_the_system_does_not_say_there_is_nothing() -> None:
    sampler = Sampler(PortableHost())
    sampler.add("w0", os.getpid())
    (task,) = sample_of(sampler).tasks
    assert task.run_wait_s is None
    sampler.settle("w0")
    assert sample_of(sampler).tasks[0].run_wait_s is None


class Counting:
    """A host of one process that counts how often its threads were looked at, and says that as what they waited."""

    def __init__(self) -> None:
        self.looks, self.pid = 0, 1

    def cores_busy_s(self) -> Deferred[list[float]]:
        return list

    def links(self) -> Deferred[Links]:
        return lambda: Links(LinkCount(), LinkCount())

    def process(self, _pid: int) -> "Counting":
        return self

    def read(self) -> Deferred[ProcessCount]:
        return lambda: ProcessCount(0.0, 0, 1, 0, 0)

    def run_wait_s(self) -> float:
        self.looks += 1
        return float(self.looks)

    def children(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


def test_threads_are_looked_at_once_a_second_and_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Counting()
    sampler = Sampler(host)
    sampler.add("w0", 1)
    beats = iter(range(10**12, 2 * 10**12, 100_000_000))
    monkeypatch.setattr(sampler_module, "time", SimpleNamespace(monotonic_ns=lambda: next(beats)))
    seen = [sample_of(sampler).tasks for _ in range(20)]
    assert seen == [[TaskSample("w0", 0.0, 0, 1, 1.0)]] * 10 + [[TaskSample("w0", 0.0, 0, 1, 2.0)]] * 10
    sampler.settle("w0")
    sampler.settle("never there")
    assert host.looks == 3
