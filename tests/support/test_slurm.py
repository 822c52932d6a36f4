"""A Slurm cluster on test machines runs jobs, passes bytes on in both directions, and leaves nothing behind."""

import os
import random
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.machines import wait_for
from support.slurm import SlurmCluster, make_slurm

pytestmark = pytest.mark.slow
MEGABYTES = 16


def test_srun_runs_on_the_node_that_is_asked_for(slurm: SlurmCluster) -> None:
    assert slurm.run("srun", "-N1", "-w", "node2", "hostname").stdout == "node2\n"


def test_steps_run_in_an_allocation_without_a_shell(slurm: SlurmCluster) -> None:
    job = slurm.allocate()
    assert slurm.jobs() == [job]
    for node in ("node1", "node2"):
        assert slurm.run(*_step(job, node), "hostname").stdout == f"{node}\n"
    slurm.run("scancel", job)
    wait_for(lambda: slurm.jobs() == [], "the allocation ends")


def test_unbuffered_srun_passes_on_single_bytes_at_once(slurm: SlurmCluster) -> None:
    """Without --unbuffered, output is held back until the line ends."""
    job = slurm.allocate()
    unbuffered = slurm.popen(*_step(job, "node1"), "--unbuffered", "cat")
    round_trips = [_round_trip_s(unbuffered, b"a") for _ in range(10)]
    buffered = slurm.popen(*_step(job, "node1"), "cat")
    _round_trip_s(buffered, b"\n")
    _send(buffered, b"a")
    print(f"a byte takes {sorted(round_trips)[5] * 1000:.1f} ms there and back")
    assert not _can_read(buffered, max(1.0, 10 * max(round_trips[1:])))
    _send(buffered, b"\n")
    assert _read(buffered, 2) == b"a\n"
    for process in (unbuffered, buffered):
        assert process.communicate()[0] == b""
        assert process.returncode == 0


def test_bytes_arrive_unchanged_and_throughput_is_printed(slurm: SlurmCluster) -> None:
    step = [*_step(slurm.allocate(), "node1"), "--unbuffered"]
    data = random.randbytes(1_000_000)
    echo = slurm.popen(*step, "cat")
    assert echo.communicate(data)[0] == data
    size = MEGABYTES * 10**6
    started = time.monotonic()
    assert len(slurm.run(*step, "head", "-c", str(size), "/dev/zero").stdout) == size
    sent = time.monotonic()
    assert slurm.run(*step, "wc", "-c", input="0" * size).stdout == f"{size}\n"
    received = time.monotonic()
    print(f"stdout {MEGABYTES / (sent - started):.1f} MB/s, stdin {MEGABYTES / (received - sent):.1f} MB/s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_task_ends_when_its_srun_is_killed(slurm: SlurmCluster, number: signal.Signals) -> None:
    job = slurm.allocate()
    command = [*_step(job, "node1"), "--unbuffered", "sh", "-c", "echo; sleep 1000"]
    srun = slurm.popen(*command, stderr=subprocess.DEVNULL)
    assert _read(srun, 1) == b"\n"
    assert slurm.nodes[0].processes()
    srun.send_signal(number)
    srun.communicate()
    slurm.nodes[0].wait_until_idle()
    assert slurm.jobs() == [job]


@pytest.mark.usefixtures("slurm_support")
def test_nothing_is_left_of_the_cluster() -> None:
    with make_slurm(1) as slurm:
        folder = slurm.cluster.folder
        assert slurm.run("srun", "hostname").stdout == "node1\n"
        assert _processes_of(folder)
    assert not folder.exists()
    assert _processes_of(folder) == []


def _step(job: str, node: str) -> list[str]:
    return ["srun", f"--jobid={job}", "--overlap", "-N1", "-n1", "-w", node]


def _processes_of(folder: Path) -> list[str]:
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if f"{folder}/" in command]


def _round_trip_s(process: "subprocess.Popen[bytes]", data: bytes) -> float:
    started = time.monotonic()
    _send(process, data)
    assert _read(process, len(data)) == data
    return time.monotonic() - started


def _send(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def _can_read(process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    assert process.stdout
    return bool(select.select([process.stdout], [], [], timeout_s)[0])


def _read(process: "subprocess.Popen[bytes]", count: int) -> bytes:
    assert process.stdout
    data = b""
    while len(data) < count:
        assert _can_read(process, 30)
        data += os.read(process.stdout.fileno(), count - len(data))
    return data
