"""The sampler, with both ways to read counters, compared with what the processes and the kernel report."""

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
from process_io import read_line, send_line
from samples import take_sample

# Every script prints one line when it is done, and then waits until its stdin is closed.
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
sampler.read_counters()
print(msgspec.json.encode(sampler.take_samples()[0]).decode())
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts scripts as processes, and kills them at the end of the test."""
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
        pytest.param(
            ProcfsHost, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files in /proc")
        ),
        PortableHost,
    ]
)
def counters(request: pytest.FixtureRequest) -> HostCounters:
    counters: HostCounters = request.param()
    return counters


def end(process: subprocess.Popen[str]) -> None:
    """Close stdin, which ends the script, and wait for its end."""
    process.communicate()


def test_cpu_time_agrees_with_what_the_process_measures(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(BURN)
    sampler.add("w0", worker.pid)
    used_s = float(read_line(worker))
    sample = take_sample(sampler)
    assert [task.task for task in sample.tasks] == ["w0"]
    assert sample.tasks[0].cpu_s == pytest.approx(used_s, rel=0.05)
    assert sample.cpu_s == sample.tasks[0].cpu_s


def test_cpu_time_of_a_removed_task_stays_in_the_total(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    first = start(BURN)
    read_line(first)
    sampler.add("w0", first.pid)
    before = take_sample(sampler)
    end(first)
    sampler.remove("w0")
    after = take_sample(sampler)
    assert after.tasks == []
    assert after.memory_bytes == 0
    assert after.cpu_s >= before.cpu_s > 0.9

    second = start(BURN)
    read_line(second)
    sampler.add("w0", second.pid)
    assert take_sample(sampler).cpu_s == pytest.approx(2.0, rel=0.1)


def test_a_sample_has_the_values_of_when_counters_were_read(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(f"import sys{WAIT}")
    assert read_line(worker) == "done"
    sampler.add("w0", worker.pid)
    sampler.read_counters()
    burning = start(BURN)
    read_line(burning)
    sampler.add("w1", burning.pid)
    sampler.read_counters()
    sampler.remove("w0")
    end(burning)
    sampler.read_counters()
    first, second, third = sampler.take_samples()
    assert sampler.take_samples() == []
    assert [[task.task for task in sample.tasks] for sample in (first, second, third)] == [["w0"], ["w0", "w1"], ["w1"]]
    assert first.t_ns < second.t_ns < third.t_ns
    assert first.cpu_s < 0.5 < 0.9 < second.cpu_s <= third.cpu_s
    assert sum(second.cores_busy_s) - sum(first.cores_busy_s) > 0.9
    assert third.memory_bytes == 0 < second.memory_bytes


def test_children_count_for_their_task_while_alive_and_after_their_end(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(BURN_IN_CHILD)
    assert read_line(worker) == "child burnt"
    sampler.add("w0", worker.pid)
    alive = take_sample(sampler).tasks[0]
    assert alive.cpu_s == pytest.approx(0.5, abs=0.15)
    assert alive.threads == 2
    send_line(worker)
    assert read_line(worker) == "child gone"
    gone = take_sample(sampler).tasks[0]
    assert gone.cpu_s == pytest.approx(alive.cpu_s, abs=0.1)
    assert gone.cpu_s >= alive.cpu_s
    assert gone.threads == 1


def test_memory_threads_and_disk_agree_with_psutil(counters: HostCounters, start: Start, tmp_path: Path) -> None:
    sampler = Sampler(counters)
    script = f"held = b'x' * 50_000_000; open({str(tmp_path / 'file')!r}, 'wb').write(held)"
    worker = start(f"{THREADS}\n{script}{WAIT}")
    assert read_line(worker) == "done"
    sampler.add("w0", worker.pid)
    sample = take_sample(sampler)
    assert sample.tasks[0].threads == 50
    assert 50_000_000 < sample.memory_bytes < 150_000_000
    assert sample.memory_bytes == sample.tasks[0].rss_bytes
    if hasattr(psutil.Process, "io_counters"):
        expected = psutil.Process(worker.pid).io_counters()
        assert (sample.disk_read_bytes, sample.disk_write_bytes) == (expected.read_bytes, expected.write_bytes)


def test_load_average_and_free_memory_agree_with_the_system(counters: HostCounters) -> None:
    machine = counters.machine()
    assert machine.load_average == pytest.approx(os.getloadavg()[0], abs=0.5)
    assert machine.memory_free_bytes == pytest.approx(psutil.virtual_memory().available, rel=0.05)


def test_sampling_a_task_that_has_ended_is_not_an_error(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    worker = start(f"import sys{WAIT}")
    assert read_line(worker) == "done"
    sampler.add("w0", worker.pid)
    before = take_sample(sampler)
    end(worker)
    after = take_sample(sampler)
    assert after.cpu_s == before.cpu_s
    assert after.memory_bytes == 0
    sampler.add("w1", worker.pid)
    assert [task.task for task in take_sample(sampler).tasks] == ["w0"]
    sampler.remove("w0")
    sampler.remove("no such task")
    assert take_sample(sampler).tasks == []


def test_a_busy_core_is_counted_as_busy(counters: HostCounters, start: Start) -> None:
    sampler = Sampler(counters)
    before = take_sample(sampler)
    read_line(start(BURN))
    after = take_sample(sampler)
    assert len(after.cores_busy_s) == psutil.cpu_count()
    busy_s = sum(after.cores_busy_s) - sum(before.cores_busy_s)
    elapsed_s = (after.t_ns - before.t_ns) / 1e9
    assert 0.95 < busy_s < 1.05 * elapsed_s * len(after.cores_busy_s)


@pytest.mark.netns
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs Linux network namespaces and root")
def test_link_counters_agree_with_the_kernel() -> None:
    requests = [HostRequest(name="h1"), HostRequest(name="h2")]
    with NetnsHosts().open(f"test-{uuid.uuid4().hex[:8]}", requests) as (host, other_host):
        assert isinstance(host, NetnsHost)
        for address in (other_host.address, host.address):  # over the link, and over loopback
            send = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(1000), ('{address}', 9))"
            subprocess.run(enter(host.namespace, [sys.executable, "-c", send]), check=True)
        sample, links = _sample_in(host)
        assert sample.external == links["eth0"]
        assert sample.loopback == links["lo"]
        assert sample.external.tx_bytes > 1000
        assert sample.loopback.rx_bytes == sample.loopback.tx_bytes > 1000


def _sample_in(host: NetnsHost) -> tuple[HostSample, dict[str, LinkCount]]:
    """A sample and the kernel's counters, which did not change while the sample was taken."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = _kernel_counters(host)
        completed = subprocess.run(
            enter(host.namespace, [sys.executable, "-c", SAMPLE]), capture_output=True, text=True, check=True
        )
        if _kernel_counters(host) == before:
            return msgspec.json.decode(completed.stdout, type=HostSample), before
    pytest.fail("the link counters changed during every sample for 30 s")


def _kernel_counters(host: NetnsHost) -> dict[str, LinkCount]:
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


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux counters are optimised")
def test_sampling_ten_times_a_second_costs_less_than_one_percent_of_a_core(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [start(THREADS + WAIT) for _ in range(2)]
    sampler = Sampler()
    for number, worker in enumerate(workers):
        assert read_line(worker) == "done"
        sampler.add(f"w{number}", worker.pid)
    # The samples of twenty seconds without pauses, with all the searches for children that belong to them.
    times_ns = iter(range(0, 10**12, 100_000_000))
    monkeypatch.setattr(sampler_module, "time", SimpleNamespace(monotonic_ns=lambda: next(times_ns)))
    before_s = time.process_time()
    for _ in range(200):
        take_sample(sampler)
    assert (time.process_time() - before_s) / (200 * 0.1) < 0.01
