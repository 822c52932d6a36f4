"""How busy a server says it was, against the clocks of the thread that was."""

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
from paceline.paramserver.busy_recorder import BusyRecorder
from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode
from paramserver.serving import WORKER_KEYS, client, is_served, running

WORK_S = IDLE_S = 0.4


class Burnt:
    """Work for this thread, then none; how long it took by its own clock of CPU time, and by the one on the wall."""

    def __init__(self) -> None:
        wall, cpu = time.monotonic(), time.thread_time()
        while time.thread_time() < cpu + WORK_S:
            pass
        self.wall_s, self.cpu_s = time.monotonic() - wall, time.thread_time() - cpu
        time.sleep(IDLE_S)


def served(folder: Path) -> np.ndarray:
    rows = decode(RecordReader(folder / "records").new())
    assert set(rows["kind"]) == {RecordKind.SERVE}
    return rows


def test_it_is_busy_as_long_as_it_has_a_core_or_waits_for_one(tmp_path: Path) -> None:
    with BusyRecorder(Recorder(tmp_path / "records")):
        burnt = Burnt()
    busy_s = served(tmp_path)["duration_ns"].sum() / 1e9
    assert 0.9 * burnt.cpu_s < busy_s < 1.1 * burnt.wall_s


def test_where_nobody_counts_waiting_it_is_busy_as_long_as_it_has_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_recorder, "_schedstat", lambda _thread: None)
    with BusyRecorder(Recorder(tmp_path / "records")):
        burnt = Burnt()
    busy_s = served(tmp_path)["duration_ns"].sum() / 1e9
    assert busy_s == pytest.approx(burnt.cpu_s, rel=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it")
def test_waiting_for_a_core_counts(tmp_path: Path) -> None:
    with _rival_on_one_core(), BusyRecorder(Recorder(tmp_path / "records")):
        burnt = Burnt()
    busy_s = served(tmp_path)["duration_ns"].sum() / 1e9
    assert burnt.wall_s > 1.2 * burnt.cpu_s
    assert 0.9 * burnt.wall_s < busy_s < 1.1 * burnt.wall_s


def test_its_stretches_follow_each_other_from_the_first_to_the_last(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    with BusyRecorder(Recorder(tmp_path / "records")):
        Burnt()
    rows = served(tmp_path)
    starts = rows["start_ns"]
    assert (np.diff(starts) > 0).all()
    assert before <= starts[0] < starts[-1] <= time.monotonic_ns()
    # There was next to nothing to do in the second half.
    half = starts < (starts[0] + starts[-1]) // 2
    assert rows["duration_ns"][half].sum() > 5 * rows["duration_ns"][~half].sum()


@pytest.mark.parametrize("record", [True, False])
def test_a_server_keeps_one_while_it_serves_if_it_is_to_be_measured(tmp_path: Path, record: bool) -> None:
    with running(tmp_path, record=record) as server, client(server.address, WORKER_KEYS) as worker:
        is_served(worker)
        assert ("diary" in _threads()) == record
    assert "diary" not in _threads()


@contextmanager
def _rival_on_one_core() -> Iterator[None]:
    """This thread may use one core only, and somebody else is on it all the time."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    rival = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert rival.stdout
        rival.stdout.readline()
        yield
    finally:
        os.sched_setaffinity(0, cores)
        rival.kill()
        rival.communicate()


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
