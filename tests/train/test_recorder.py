import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paceline.store.tables import decode
from paceline.train.recorder import TRACED, Kind, Recorder, RecordReader
from scarce import needs_root, small_disk


def test_what_is_recorded_can_be_read_while_it_grows(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")
    assert reader.new() == b""
    with recorder.data:
        pass
    with recorder.compute:
        pass
    recorder.end_step(5, update=7, loss=0.25, staleness=3)
    first = decode(reader.new())
    assert [Kind(kind) for kind in first["kind"]] == [Kind.DATA, Kind.COMPUTE, Kind.STEP]
    assert (first["step"] == 0).all()
    assert first[2]["update"] == 7
    assert first[2]["value"] == 0.25
    assert first[2]["staleness"] == 3
    with recorder.push:
        pass
    second = decode(reader.new())
    assert list(second["step"]) == [1]
    assert reader.new() == b""


def test_a_phase_that_raises_is_recorded_too(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    with pytest.raises(ZeroDivisionError), recorder.compute:
        _ = 1 / 0
    assert decode(RecordReader(tmp_path / "r").new())["kind"].tolist() == [Kind.COMPUTE]


def test_what_is_no_step_can_be_seen_while_it_lasts(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")

    def seen() -> str | None:
        reader.new()
        return reader.aside

    assert seen() is None
    with recorder.aside(Kind.WAIT):
        assert seen() == "wait"
        with recorder.aside(Kind.EVAL):
            assert seen() == "eval"
        assert seen() == "wait"
    assert seen() is None


def test_flags_belong_to_one_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.step_flags = TRACED
    recorder.end_step(0, 1, 0.0)
    recorder.end_step(0, 2, 0.0)
    assert decode(RecordReader(tmp_path / "r").new())["flags"].tolist() == [TRACED, 0]


def test_the_file_grows_past_its_first_size(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")
    for number in range(70_000):
        recorder.write(Kind.PULL, number, 1)
    starts = np.concatenate([decode(reader.new(at_most=30_000))["start_ns"] for _ in range(3)])
    assert (starts == np.arange(70_000)).all()


def test_records_survive_kill_9(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib\n"
        "from paceline.train.recorder import Recorder\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]))\n"
        "for _ in range(5000):\n"
        "    with recorder.compute: pass\n"
        "print('written', flush=True)\n"
        "sys.stdin.read()\n"
    )
    path = tmp_path / "r"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    assert child.stdout.readline() == "written\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert len(decode(RecordReader(path).new())) == 5000


def test_a_file_that_is_not_records_reads_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(b"garbage" * 100)
    assert RecordReader(path).new() == b""
    assert RecordReader(tmp_path / "missing").new() == b""


@needs_root
def test_a_full_disk_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    with small_disk(tmp_path, "2m"):
        recorder = Recorder(tmp_path / "r")

        def fill() -> None:
            for number in range(200_000):
                recorder.write(Kind.PULL, number, 1)

        with pytest.raises(OSError, match="No space"):
            fill()
        assert len(decode(RecordReader(tmp_path / "r").new())) >= 32_000
        recorder.close()


def test_a_phase_costs_less_than_3_microseconds(tmp_path: Path) -> None:
    """CPU time, the best of several rounds: a busy machine must not fail it."""
    recorder = Recorder(tmp_path / "r")
    span, rounds = recorder.compute, []
    for _ in range(7):
        start = time.process_time_ns()
        for _ in range(20_000):
            with span:
                pass
        rounds.append((time.process_time_ns() - start) / 20_000)
    assert min(rounds) < 3_000
