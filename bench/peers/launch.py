"""Starts the hand-written script as one server and some workers, and measures its pace."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from paceline.engines.ports import held_port

_PATIENCE_S = 120


def updates_per_s(*, workers: int, steps: int, sync: bool) -> float:
    """Global steps per second while all workers were in: the script has no barrier of its own."""
    holders = [held_port("127.0.0.1") for _ in range(workers + 1)]
    server, *homes = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    common = ["--ps", server, "--workers", ",".join(homes), "--steps", str(steps), *(["--sync"] if sync else [])]
    processes = [_start("ps", 0, common)]
    traces: list[list[tuple[float, float]]] = [[] for _ in range(workers)]
    readers = []
    try:
        for index in range(workers):
            process = _start("worker", index, common)
            processes.append(process)
            readers.append(threading.Thread(target=_read, args=(process, traces[index]), daemon=True))
            readers[-1].start()
            # The others sleep 30 s if they find nothing initialised: the chief's first step is the sign.
            _until(lambda: bool(traces[0]) or processes[1].poll() is not None)
        _until(lambda: any(process.poll() is not None for process in processes[1:]))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for reader in readers:
        reader.join(5)
    return _pace(traces)


def _pace(traces: list[list[tuple[float, float]]]) -> float:
    start, end = max(trace[1][0] for trace in traces), min(trace[-1][0] for trace in traces)
    times, steps = map(np.array, zip(*sorted(point for trace in traces for point in trace), strict=True))
    return float((np.interp(end, times, steps) - np.interp(start, times, steps)) / (end - start))


def _start(job: str, index: int, common: list[str]) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "bench.peers.tensorflow_ps", "--job", job, "--index", str(index), *common]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _read(process: "subprocess.Popen[str]", trace: list[tuple[float, float]]) -> None:
    assert process.stdout
    for line in process.stdout:
        when, step = line.split()
        trace.append((float(when), float(step)))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the hand-written script does not get on")
        time.sleep(0.05)
