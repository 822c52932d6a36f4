"""Starts the hand-written TensorFlow script as one server and some workers, and measures its throughput."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from paceline.ports import reserve_port

_TIMEOUT_S = 120


def updates_per_s(*, workers: int, steps: int, sync: bool) -> float:
    """Global steps per second while all workers were training: the script has no barrier, so they start one by one."""
    reservations = [reserve_port("127.0.0.1") for _ in range(workers + 1)]
    server, *addresses = [f"127.0.0.1:{reservation.getsockname()[1]}" for reservation in reservations]
    for reservation in reservations:
        reservation.close()
    common = ["--ps", server, "--workers", ",".join(addresses), "--steps", str(steps), *(["--sync"] if sync else [])]
    processes = [_start("ps", 0, common)]
    progress: list[list[tuple[float, float]]] = [[] for _ in range(workers)]
    readers = []
    try:
        for index in range(workers):
            process = _start("worker", index, common)
            processes.append(process)
            readers.append(threading.Thread(target=_read, args=(process, progress[index]), daemon=True))
            readers[-1].start()
            # A worker that finds the variables uninitialised sleeps for 30 s, so wait for the chief's first step.
            _wait_until(lambda: bool(progress[0]) or processes[1].poll() is not None)
        _wait_until(lambda: any(process.poll() is not None for process in processes[1:]))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for reader in readers:
        reader.join(5)
    return _steps_per_s(progress)


def _steps_per_s(progress: list[list[tuple[float, float]]]) -> float:
    """From each worker's (time, global step) points, between the latest start and the earliest end of a worker."""
    start, end = max(points[1][0] for points in progress), min(points[-1][0] for points in progress)
    times, steps = map(np.array, zip(*sorted(point for points in progress for point in points), strict=True))
    return float((np.interp(end, times, steps) - np.interp(start, times, steps)) / (end - start))


def _start(job: str, index: int, common: list[str]) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "bench.peers.tensorflow_ps", "--job", job, "--index", str(index), *common]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _read(process: "subprocess.Popen[str]", points: list[tuple[float, float]]) -> None:
    assert process.stdout
    for line in process.stdout:
        t_s, step = line.split()
        points.append((float(t_s), float(step)))


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"the hand-written script made no progress for {_TIMEOUT_S} s")
        time.sleep(0.05)
