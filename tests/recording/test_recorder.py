"""Writing records: named phases, spans, growth, a full disk, kill -9."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.recording import rows as rows_module
from paceline.recording.layout import STEP_PHASES, TRACED, RecordKind, phase_fields
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder, SilentRecorder, clock_ns
from paceline.recording.rows import decode
from support.scarce_resources import needs_root, small_disk


def rows(path: Path) -> np.ndarray:
    return decode(RecordReader(path).new())


def test_records_can_be_read_while_the_file_grows(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")
    assert reader.new() == b""
    recorder.current.start_ns = clock_ns()
    recorder.current.data_end_ns = clock_ns()
    with recorder.compute:
        pass
    recorder.end_step(clock_ns(), update=7, loss=0.25, staleness=3)
    first = decode(reader.new())
    assert [RecordKind(kind) for kind in first["kind"]] == [RecordKind.DATA, RecordKind.COMPUTE, RecordKind.STEP]
    assert (first["step"] == 0).all()
    assert first[2]["update"] == 7
    assert first[2]["loss"] == 0.25
    assert first[2]["staleness"] == 3
    with recorder.push:
        pass
    second = decode(reader.new())
    assert list(second["step"]) == [1]
    assert reader.new() == b""


span_kinds = [RecordKind.PULL, RecordKind.COMPUTE, RecordKind.PUSH, RecordKind.WAIT]
span_phases = st.tuples(st.sampled_from(span_kinds), st.integers(1, 2**62), st.integers(0, 10**11))


@given(st.lists(st.tuples(st.lists(span_phases, max_size=9), st.booleans()), max_size=6))
def test_all_spans_become_rows(steps: list[tuple[list[Any], bool]]) -> None:
    """Also several of one phase in a step, long ones, and those of dropped steps."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "r")
        expected = []
        for number, (spans, applied) in enumerate(steps):
            recorder.current.step = number
            recorder.current.start_ns = clock_ns()
            for kind, start, duration in spans:
                getattr(recorder, kind.name.lower()).add(start, duration)
                expected.append((number, kind, start, duration))
            if applied:
                recorder.end_step(clock_ns(), number, 0.5)
            else:
                recorder.drop_step()
        found = rows(Path(folder) / "r")
    phases = found[found["kind"] != RecordKind.STEP]
    assert sorted(phases[["step", "kind", "start_ns", "duration_ns"]].tolist()) == sorted(expected)
    assert (found["kind"] == RecordKind.STEP).sum() == sum(applied for _, applied in steps)


intervals = st.none() | st.tuples(st.integers(1, 2**62), st.integers(0, 10**11))
step_phases = st.fixed_dictionaries(dict.fromkeys(STEP_PHASES, intervals))


@given(st.lists(st.tuples(step_phases, st.integers(0, 10**8), st.booleans()), max_size=6))
def test_named_phases_become_rows(steps: list[Any]) -> None:
    """Short steps and long ones, applied or dropped; a phase of one step never shows in the next."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "r")
        expected = []
        for number, (phases, data_ns, applied) in enumerate(steps):
            record = recorder.current
            record.step, record.start_ns, record.data_end_ns = number, 10**9, 10**9 + data_ns
            expected.append((number, RecordKind.DATA, 10**9, data_ns))
            for kind, interval in phases.items():
                if interval:
                    for name, time_ns in zip(phase_fields(kind), (interval[0], sum(interval)), strict=True):
                        setattr(record, name, time_ns)
                    expected.append((number, kind, *interval))
            if applied:
                recorder.end_step(10**9 + 77, number, 0.5, staleness=2)
                expected.append((number, RecordKind.STEP, 10**9, 77))
            else:
                recorder.drop_step()
        number = recorder.current.step
        with recorder.push:
            pass
        found = rows(Path(folder) / "r")
        written = rows_module.as_written(RecordReader(Path(folder) / "r").new())
    totals = [found["duration_ns"][found["kind"] == kind].sum() for kind in RecordKind]
    assert rows_module.spent_ns(written).tolist() == totals
    for kind in RecordKind:
        assert (rows_module.of_kind(written, kind)["kind"] == kind).all()
        assert len(rows_module.of_kind(written, kind)) == (written["kind"] == kind).sum()
    assert sorted(found[["step", "kind", "start_ns", "duration_ns"]][:-1].tolist()) == sorted(expected)
    assert set(found["staleness"][found["kind"] == RecordKind.STEP]) <= {2}
    assert found[["step", "kind"]][-1].item() == (number, RecordKind.PUSH), "between steps"


def test_a_long_phase_is_written_before_its_step_ends(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.current.start_ns = clock_ns()
    recorder.pull.add(5, 1000)
    recorder.compute.add(6, 10**9)
    assert rows(tmp_path / "r")["kind"].tolist() == [RecordKind.COMPUTE]


def test_phases_come_in_the_order_of_their_kinds_with_the_flags_of_their_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.current.start_ns = clock_ns()
    recorder.push.add(7, 2)
    recorder.wait.add(5, 0)
    recorder.current.flags = TRACED
    recorder.end_step(clock_ns(), 1, 0.5)
    found = rows(tmp_path / "r")
    assert found["kind"].tolist() == [RecordKind.PUSH, RecordKind.WAIT, RecordKind.STEP]
    assert found["flags"].tolist() == [TRACED] * 3
    assert found["staleness"].tolist() == [-1] * 3
    assert np.isnan(found["loss"][:2]).all()


def test_a_phase_that_raises_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    with pytest.raises(ZeroDivisionError), recorder.compute:
        _ = 1 / 0
    assert rows(tmp_path / "r")["kind"].tolist() == [RecordKind.COMPUTE]


def test_flags_belong_to_one_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    for update, flags in ((1, TRACED), (2, 0)):
        recorder.current.start_ns = clock_ns()
        recorder.current.flags |= flags
        recorder.end_step(clock_ns(), update, 0.0)
    assert rows(tmp_path / "r")["flags"].tolist() == [TRACED, 0]


def test_a_silent_recorder_counts_steps_and_writes_nothing(tmp_path: Path) -> None:
    recorder = SilentRecorder(tmp_path / "r")
    recorder.current.start_ns = clock_ns()
    with recorder.compute:
        pass
    recorder.end_step(clock_ns(), 1, 0.5)
    recorder.drop_step()
    assert recorder.current.step == 1
    assert RecordReader(tmp_path / "r").new() == b""


def test_records_survive_kill_9(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib\n"
        "from paceline.recording.recorder import Recorder, clock_ns\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]))\n"
        "for number in range(5000):\n"
        "    recorder.current.start_ns = clock_ns()\n"
        "    with recorder.compute: pass\n"
        "    recorder.end_step(clock_ns(), number, 0.5)\n"
        "recorder.current.start_ns = clock_ns()\n"
        "recorder.pull.add(1, 1)\n"
        "recorder.compute.add(2, 10**9)\n"
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
    kinds = rows(path)["kind"].tolist()
    # Of the step under way, the phase that was long.
    assert kinds == [RecordKind.COMPUTE, RecordKind.STEP] * 5000 + [RecordKind.COMPUTE]


def test_a_full_disk_raises_again_when_the_step_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "r")
    monkeypatch.setattr(
        "paceline.recording.recorder._reserve", lambda *_: (_ for _ in ()).throw(OSError(28, "No space"))
    )

    def steps() -> None:
        try:
            while True:
                recorder.current.start_ns = clock_ns()
                recorder.current.data_end_ns = clock_ns()
                recorder.end_step(clock_ns(), 1, 0.5)
        finally:
            recorder.drop_step()

    with pytest.raises(OSError, match="No space"):
        steps()


@needs_root
def test_a_full_disk_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    with small_disk(tmp_path, "5m"):
        recorder = Recorder(tmp_path / "r")

        def fill() -> None:
            for number in range(200_000):
                recorder.write(RecordKind.PULL, number, 1)

        with pytest.raises(OSError, match="No space"):
            fill()
        assert len(rows(tmp_path / "r")) >= 16_000
        recorder.close()


def span_of_compute(recorder: Recorder) -> None:
    with recorder.compute:
        pass


def named_compute(recorder: Recorder) -> None:
    record = recorder.current
    record.compute_start_ns, record.compute_end_ns = clock_ns(), clock_ns()


@pytest.mark.parametrize("compute", [span_of_compute, named_compute])
def test_a_step_with_a_phase_costs_less_than_6_microseconds(
    tmp_path: Path, compute: Callable[[Recorder], None]
) -> None:
    """CPU time, the best of several rounds: a busy machine must not fail it."""
    recorder, rounds = Recorder(tmp_path / "r"), []
    for _ in range(7):
        start = time.process_time_ns()
        for number in range(10_000):
            recorder.current.start_ns = recorder.current.data_end_ns = clock_ns()
            compute(recorder)
            recorder.end_step(clock_ns(), number, 0.5)
        rounds.append((time.process_time_ns() - start) / 10_000)
    assert min(rounds) < 6_000
