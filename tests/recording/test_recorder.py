import itertools
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
from paceline.recording.recorder import INSIDE, NONE, TRACED, Kind, Recorder, RecordReader, clock_ns
from paceline.recording.rows import decode
from scarce import needs_root, small_disk


def rows(path: Path) -> np.ndarray:
    return decode(RecordReader(path).new())


def test_what_is_recorded_can_be_read_while_it_grows(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")
    assert reader.new() == b""
    recorder.step_start_ns = clock_ns()
    recorder.data_end_ns = clock_ns()
    with recorder.compute:
        pass
    recorder.end_step(clock_ns(), update=7, loss=0.25, staleness=3)
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


spans = [kind for kind in INSIDE if kind is not Kind.FUSED]
phases = st.tuples(st.sampled_from(spans), st.integers(1, 2**62), st.integers(0, 10**11))


@given(st.lists(st.tuples(st.lists(phases, max_size=9), st.booleans()), max_size=6))
def test_all_phases_of_all_steps_are_told_whether_they_fit_or_not(made: list[tuple[list[Any], bool]]) -> None:
    """More than one of a kind, long ones, of steps that are dropped."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "r")
        expected = []
        for number, (took, counts) in enumerate(made):
            recorder.step_number = number
            recorder.step_start_ns = clock_ns()
            for kind, start, duration in took:
                getattr(recorder, kind.name.lower()).took(start, duration)
                expected.append((number, kind, start, duration))
            if counts:
                recorder.end_step(clock_ns(), number, 0.5)
            else:
                recorder.drop_step()
        found = rows(Path(folder) / "r")
    told = found[found["kind"] != Kind.STEP]
    assert sorted(told[["step", "kind", "start_ns", "duration_ns"]].tolist()) == sorted(expected)
    assert (found["kind"] == Kind.STEP).sum() == sum(counts for _, counts in made)


stretches = st.none() | st.tuples(st.integers(1, 2**62), st.integers(0, 10**11))


@given(st.lists(st.tuples(st.tuples(*[stretches] * len(INSIDE)), st.integers(0, 10**8), st.booleans()), max_size=6))
def test_what_a_strategy_read_off_the_clock_is_told_like_what_spans_tell(made: list[Any]) -> None:
    """Short steps and long ones, that count or not."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "r")
        expected = []
        for number, (took, data_ns, counts) in enumerate(made):
            recorder.step_number, recorder.step_start_ns, recorder.data_end_ns = number, 10**9, 10**9 + data_ns
            expected.append((number, Kind.DATA, 10**9, data_ns))
            told = [(start, start + lasted) for start, lasted in (one or NONE for one in took)]
            recorder.phases = tuple(itertools.chain(*told))
            expected += [(number, kind, *one) for kind, one in zip(INSIDE, took, strict=True) if one]
            if counts:
                recorder.end_step(10**9 + 77, number, 0.5, staleness=2)
                expected.append((number, Kind.STEP, 10**9, 77))
            else:
                recorder.drop_step()
        number = recorder.step_number
        with recorder.push:
            pass
        found = rows(Path(folder) / "r")
        written = rows_module.as_written(RecordReader(Path(folder) / "r").new())
    in_all = [found["duration_ns"][found["kind"] == kind].sum() for kind in Kind]
    assert rows_module.spent_ns(written).tolist() == in_all
    for kind in Kind:
        assert (rows_module.of_kind(written, kind)["kind"] == kind).all()
        assert len(rows_module.of_kind(written, kind)) == (written["kind"] == kind).sum()
    assert sorted(found[["step", "kind", "start_ns", "duration_ns"]][:-1].tolist()) == sorted(expected)
    assert set(found["staleness"][found["kind"] == Kind.STEP]) <= {2}
    assert found[["step", "kind"]][-1].item() == (number, Kind.PUSH), "between steps"


def test_no_records_took_no_time() -> None:
    assert rows_module.spent_ns(rows_module.as_written(b"")).tolist() == [0.0] * len(Kind)


def test_a_long_phase_is_told_before_its_step_is_over(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.step_start_ns = clock_ns()
    recorder.pull.took(5, 1000)
    recorder.compute.took(6, 10**9)
    assert rows(tmp_path / "r")["kind"].tolist() == [Kind.COMPUTE]


def test_phases_are_told_in_the_order_of_their_kinds_with_the_flags_of_their_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.step_start_ns = clock_ns()
    recorder.push.took(7, 2)
    recorder.wait.took(5, 0)
    recorder.step_flags = TRACED
    recorder.end_step(clock_ns(), 1, 0.5)
    found = rows(tmp_path / "r")
    assert found["kind"].tolist() == [Kind.PUSH, Kind.WAIT, Kind.STEP]
    assert found["flags"].tolist() == [TRACED] * 3
    assert found["staleness"].tolist() == [-1] * 3
    assert np.isnan(found["value"][:2]).all()


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


def test_a_loss_too_large_for_a_table_is_infinite_there(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.step_start_ns = clock_ns()
    recorder.end_step(clock_ns(), 1, -1e300)
    assert rows(tmp_path / "r")["value"].tolist() == [-np.inf]


def test_flags_belong_to_one_step(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    for update, flags in ((1, TRACED), (2, 0)):
        recorder.step_start_ns = clock_ns()
        recorder.step_flags |= flags
        recorder.end_step(clock_ns(), update, 0.0)
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
        "from paceline.recording.recorder import Recorder, clock_ns\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]))\n"
        "for number in range(5000):\n"
        "    recorder.step_start_ns = clock_ns()\n"
        "    with recorder.compute: pass\n"
        "    recorder.end_step(clock_ns(), number, 0.5)\n"
        "recorder.step_start_ns = clock_ns()\n"
        "recorder.pull.took(1, 1)\n"
        "recorder.compute.took(2, 10**9)\n"
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
    assert kinds == [Kind.COMPUTE, Kind.STEP] * 5000 + [Kind.COMPUTE], "of the step under way, what took long"


def test_a_file_that_is_not_records_reads_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(b"garbage" * 100)
    assert RecordReader(path).new() == b""
    assert RecordReader(tmp_path / "missing").new() == b""


def test_rows_come_out_the_same_however_many_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "r")
    for number in range(11):
        recorder.step_start_ns = clock_ns()
        recorder.data_end_ns = clock_ns()
        if number % 3:
            recorder.push.took(100 + number, number)
        recorder.end_step(clock_ns(), number, 0.5)
    whole = rows(tmp_path / "r")
    monkeypatch.setattr(rows_module, "_CHUNK", 4)
    assert whole.tobytes() == rows(tmp_path / "r").tobytes()
    assert (whole["kind"] == Kind.DATA).sum() == 11


def test_a_step_for_which_there_is_no_room_says_so_also_when_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r")
    monkeypatch.setattr(
        "paceline.recording.recorder._reserve", lambda *_: (_ for _ in ()).throw(OSError(28, "No space"))
    )

    def steps() -> None:
        try:
            while True:
                recorder.step_start_ns = clock_ns()
                recorder.data_end_ns = clock_ns()
                recorder.end_step(clock_ns(), 1, 0.5)
        finally:
            recorder.drop_step()

    with pytest.raises(OSError, match="No space"):
        steps()


@needs_root
def test_a_full_disk_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    with small_disk(tmp_path, "3m"):
        recorder = Recorder(tmp_path / "r")

        def fill() -> None:
            for number in range(200_000):
                recorder.write(Kind.PULL, number, 1)

        with pytest.raises(OSError, match="No space"):
            fill()
        assert len(rows(tmp_path / "r")) >= 16_000
        recorder.close()


def by_span(recorder: Recorder) -> None:
    with recorder.compute:
        pass


def by_the_clock(recorder: Recorder) -> None:
    start = clock_ns()
    recorder.phases = (0, 0, start, clock_ns(), 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("compute", [by_span, by_the_clock])
def test_a_step_with_a_phase_costs_less_than_6_microseconds(
    tmp_path: Path, compute: Callable[[Recorder], None]
) -> None:
    """CPU time, the best of several rounds: a busy machine must not fail it."""
    recorder, rounds = Recorder(tmp_path / "r"), []
    for _ in range(7):
        start = time.process_time_ns()
        for number in range(10_000):
            recorder.step_start_ns = recorder.data_end_ns = clock_ns()
            compute(recorder)
            recorder.end_step(clock_ns(), number, 0.5)
        rounds.append((time.process_time_ns() - start) / 10_000)
    assert min(rounds) < 6_000
