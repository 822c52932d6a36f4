"""The sampler against what the system itself says of the same things, by /proc and by psutil."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest

from paceline.agent import sampler as sampler_module
from paceline.agent.counters import HostCounters
from paceline.agent.portable import PortableHost
from paceline.agent.procfs import ProcfsHost
from paceline.agent.sampler import Sampler
from paceline.hosts.base import HostRequest
from paceline.hosts.netns.hosts import NetnsHost, NetnsHosts, enter
from paceline.messages import HostSample, LinkCount
from samples import sample_of
from talk import said, tell

# Every script says one line when it is done, and then waits to be told to end.
WAIT = "\nprint('done', flush=True); sys.stdin.read()"
BURN = """
import resource, sys, time
while time.process_time() < 1.0: pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, flush=True)
sys.stdin.read()
"""
BURN_IN_CHILD = """
import subprocess, sys
burn = "import sys, time\\nwhile time.process_time() < 0.5: pass\\nprint('done', flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("child burnt", flush=True)
sys.stdin.readline()
child.communicate()
print("child gone", flush=True)
sys.stdin.read()
"""
THREADS = (
    "import sys, threading\nfor _ in range(49): threading.Thread(target=threading.Event().wait, daemon=True).start()"
)
SAMPLE = """
import msgspec
from paceline.agent.sampler import Sampler
sampler = Sampler()
sampler.look()
print(msgspec.json.encode(sampler.samples()[0]).decode())
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script as a process and waits for the line it says."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(
    params=[
        pytest.param(ProcfsHost, marks=pytest.mark.skipif(sys.platform != "linux", reason="/proc is a Linux thing")),
        PortableHost,
    ]
)
def counters(request: pytest.FixtureRequest) -> HostCounters:
    made: HostCounters = request.param()
    return made


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_cpu_is_what_the_process_itself_counts(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(BURN)
    sampler.add("w0", worker.pid)
    used_s = float(said(worker))
    sample = sample_of(sampler)
    assert [task.task for task in sample.tasks] == ["w0"]
    assert sample.tasks[0].cpu_s == pytest.approx(used_s, rel=0.05)
    assert sample.cpu_s == sample.tasks[0].cpu_s


def test_what_a_removed_task_used_stays_in_the_total(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    first = start(BURN)
    said(first)
    sampler.add("w0", first.pid)
    before = sample_of(sampler)
    end(first)
    sampler.remove("w0")
    after = sample_of(sampler)
    assert after.tasks == []
    assert after.memory_bytes == 0
    assert after.cpu_s >= before.cpu_s > 0.9

    second = start(BURN)
    said(second)
    sampler.add("w0", second.pid)
    assert sample_of(sampler).cpu_s == pytest.approx(2.0, rel=0.1)


def test_a_sample_is_of_when_it_was_taken_and_not_of_when_it_was_asked_for(
    counters: HostCounters, start: Start
) -> None:
    sampler = Sampler(counters)
    worker = start(f"import sys{WAIT}")
    assert said(worker) == "done"
    sampler.add("w0", worker.pid)
    sampler.look()
    burning = start(BURN)
    said(burning)
    sampler.add("w1", burning.pid)
    sampler.look()
    sampler.remove("w0")
    end(burning)
    sampler.look()
    one, two, three = sampler.samples()
    assert sampler.samples() == []
    assert [[task.task for task in sample.tasks] for sample in (one, two, three)] == [["w0"], ["w0", "w1"], ["w1"]]
    assert one.t_ns < two.t_ns < three.t_ns
    assert one.cpu_s < 0.5 < 0.9 < two.cpu_s <= three.cpu_s
    assert sum(two.cores_busy_s) - sum(one.cores_busy_s) > 0.9
    assert three.memory_bytes == 0 < two.memory_bytes


def test_children_count_for_their_task_alive_and_after(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(BURN_IN_CHILD)
    assert said(worker) == "child burnt"
    sampler.add("w0", worker.pid)
    alive = sample_of(sampler).tasks[0]
    assert alive.cpu_s == pytest.approx(0.5, abs=0.15)
    assert alive.threads == 2
    tell(worker)
    assert said(worker) == "child gone"
    gone = sample_of(sampler).tasks[0]
    assert gone.cpu_s == pytest.approx(alive.cpu_s, abs=0.1)
    assert gone.cpu_s >= alive.cpu_s
    assert gone.threads == 1


def test_memory_threads_and_disk(counters: HostCounters, start: Start, tmp_path: Path) -> None:
    sampler = Sampler(counters)
    script = f"held = b'x' * 50_000_000; open({str(tmp_path / 'file')!r}, 'wb').write(held)"
    worker = start(f"{THREADS}\n{script}{WAIT}")
    assert said(worker) == "done"
    sampler.add("w0", worker.pid)
    sample = sample_of(sampler)
    assert sample.tasks[0].threads == 50
    assert 50_000_000 < sample.memory_bytes < 150_000_000
    assert sample.memory_bytes == sample.tasks[0].rss_bytes
    if hasattr(psutil.Process, "io_counters"):
        told = psutil.Process(worker.pid).io_counters()
        assert (sample.disk_read_bytes, sample.disk_write_bytes) == (told.read_bytes, told.write_bytes)


def test_a_task_that_ended_is_no_error(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(f"import sys{WAIT}")
    assert said(worker) == "done"
    sampler.add("w0", worker.pid)
    before = sample_of(sampler)
    end(worker)
    after = sample_of(sampler)
    assert after.cpu_s == before.cpu_s
    assert after.memory_bytes == 0
    sampler.add("w1", worker.pid)
    assert [task.task for task in sample_of(sampler).tasks] == ["w0"]
    sampler.remove("w0")
    sampler.remove("never there")
    assert sample_of(sampler).tasks == []


def test_a_busy_core_shows(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    before = sample_of(sampler)
    said(start(BURN))
    after = sample_of(sampler)
    assert len(after.cores_busy_s) == psutil.cpu_count()
    busy_s = sum(after.cores_busy_s) - sum(before.cores_busy_s)
    elapsed_s = (after.t_ns - before.t_ns) / 1e9
    assert 0.95 < busy_s < 1.05 * elapsed_s * len(after.cores_busy_s)


@pytest.mark.netns
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs Linux network namespaces and root")
def test_links_are_counted_as_the_kernel_counts_them() -> None:
    wanted = [HostRequest(name="h1"), HostRequest(name="h2")]
    with NetnsHosts().open(f"test-{uuid.uuid4().hex[:8]}", wanted) as (one, other):
        assert isinstance(one, NetnsHost)
        for address in (other.address, one.address):  # over the link, and to itself
            say = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(1000), ('{address}', 9))"
            subprocess.run(enter(one.namespace, [sys.executable, "-c", say]), check=True)
        sample, links = _sample_in(one)
        assert sample.external == links["eth0"]
        assert sample.loopback == links["lo"]
        assert sample.external.tx_bytes > 1000
        assert sample.loopback.rx_bytes == sample.loopback.tx_bytes > 1000


def _sample_in(host: NetnsHost) -> tuple[HostSample, dict[str, LinkCount]]:
    """A sample, and what the kernel says of the same moment: nothing moved while it was taken."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = _kernel_says(host)
        done = subprocess.run(
            enter(host.namespace, [sys.executable, "-c", SAMPLE]), capture_output=True, text=True, check=True
        )
        if _kernel_says(host) == before:
            return msgspec.json.decode(done.stdout, type=HostSample), before
    pytest.fail("the links never came to rest")


def _kernel_says(host: NetnsHost) -> dict[str, LinkCount]:
    argv = ["ip", "-n", host.namespace, "-s", "-j", "link"]
    rows = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    return {
        row["ifname"]: LinkCount(
            row["stats64"]["rx"]["bytes"],
            row["stats64"]["tx"]["bytes"],
            row["stats64"]["rx"]["packets"],
            row["stats64"]["tx"]["packets"],
        )
        for row in rows
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux counters are made for speed")
def test_sampling_ten_times_a_second_costs_under_a_hundredth_of_a_core(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [start(THREADS + WAIT) for _ in range(2)]
    sampler = Sampler()
    for number, worker in enumerate(workers):
        assert said(worker) == "done"
        sampler.add(f"w{number}", worker.pid)
    # Twenty seconds of samples at once, with all the lookups of children that belong to them.
    beats = iter(range(0, 10**12, 100_000_000))
    monkeypatch.setattr(sampler_module, "time", SimpleNamespace(monotonic_ns=lambda: next(beats)))
    before_s = time.process_time()
    for _ in range(200):
        sample_of(sampler)
    assert (time.process_time() - before_s) / (200 * 0.1) < 0.01
