"""The recorded busy time of a server agrees with the clocks of the thread that was busy."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from paceline.paramserver import busy_recorder
from paceline.paramserver.busy_recorder import THREAD_NAME, BusyRecorder
from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode
from paramserver.running_server import WORKER_KEYS, connect_zmq, pull_and_push, run_server

WORK_S = IDLE_S = 0.4


class WorkThenIdle:
    """Keeps this thread busy, then idle; measures the busy part by the wall clock and by the thread's CPU clock."""

    def __init__(self) -> None:
        wall_start, cpu_start = time.monotonic(), time.thread_time()
        while time.thread_time() < cpu_start + WORK_S:
            pass
        self.wall_s, self.cpu_s = time.monotonic() - wall_start, time.thread_time() - cpu_start
        self.work_end_ns = time.monotonic_ns()
        time.sleep(IDLE_S)


def busy_records(folder: Path) -> np.ndarray:
    rows = decode(RecordReader(folder / "records").new())
    assert set(rows["kind"]) == {RecordKind.SERVE}
    return rows


def test_busy_time_is_time_on_a_core_plus_time_waiting_for_one(tmp_path: Path) -> None:
    with BusyRecorder(Recorder(tmp_path / "records")):
        work = WorkThenIdle()
    busy_s = busy_records(tmp_path)["duration_ns"].sum() / 1e9
    assert 0.9 * work.cpu_s < busy_s < 1.1 * work.wall_s


def test_busy_time_is_cpu_time_where_the_system_does_not_count_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_recorder, "_open_schedstat", lambda _thread: None)
    with BusyRecorder(Recorder(tmp_path / "records")):
        work = WorkThenIdle()
    busy_s = busy_records(tmp_path)["duration_ns"].sum() / 1e9
    assert busy_s == pytest.approx(work.cpu_s, rel=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time that a thread waits for a core")
def test_time_waiting_for_a_core_counts_as_busy(tmp_path: Path) -> None:
    with _competitor_on_one_core(), BusyRecorder(Recorder(tmp_path / "records")):
        work = WorkThenIdle()
    busy_s = busy_records(tmp_path)["duration_ns"].sum() / 1e9
    assert work.wall_s > 1.2 * work.cpu_s
    assert 0.9 * work.wall_s < busy_s < 1.1 * work.wall_s


def test_intervals_cover_the_recorded_time_without_gaps(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    with BusyRecorder(Recorder(tmp_path / "records")):
        work = WorkThenIdle()
    rows = busy_records(tmp_path)
    starts = rows["start_ns"]
    assert (np.diff(starts) > 0).all()
    assert before <= starts[0] < starts[-1] <= time.monotonic_ns()
    is_idle = starts >= work.work_end_ns
    assert is_idle.any()
    assert rows["duration_ns"][~is_idle].sum() > 5 * rows["duration_ns"][is_idle].sum()


@pytest.mark.parametrize("record", [True, False])
def test_server_records_busy_time_only_if_the_job_records(tmp_path: Path, record: bool) -> None:
    with run_server(tmp_path, record=record) as server, connect_zmq(server.address, WORKER_KEYS) as worker:
        pull_and_push(worker)
        assert (THREAD_NAME in _thread_names()) == record
    assert THREAD_NAME not in _thread_names()


@contextmanager
def _competitor_on_one_core() -> Iterator[None]:
    """Restrict this thread to one core, on which another process runs all the time."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    competitor = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert competitor.stdout
        competitor.stdout.readline()
        yield
    finally:
        os.sched_setaffinity(0, cores)
        competitor.kill()
        competitor.communicate()


def _thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
