"""Rows made from records."""

from pathlib import Path

import numpy as np
import pytest

from paceline.recording import rows as rows_module
from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder, clock_ns
from paceline.recording.rows import as_written, decode, spent_ns


def test_no_records_took_no_time() -> None:
    assert spent_ns(as_written(b"")).tolist() == [0.0] * len(RecordKind)


def test_a_loss_too_large_for_a_float32_becomes_infinite(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.current.start_ns = clock_ns()
    recorder.end_step(clock_ns(), 1, -1e300)
    assert decode(RecordReader(tmp_path / "r").new())["loss"].tolist() == [-np.inf]


def test_rows_do_not_depend_on_how_many_records_are_converted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r")
    for number in range(11):
        recorder.current.start_ns = clock_ns()
        recorder.current.data_end_ns = clock_ns()
        if number % 3:
            recorder.push.add(100 + number, number)
        recorder.end_step(clock_ns(), number, 0.5)
    data = RecordReader(tmp_path / "r").new()
    whole = decode(data)
    monkeypatch.setattr(rows_module, "_CHUNK", 4)
    assert whole.tobytes() == decode(data).tobytes()
    assert (whole["kind"] == RecordKind.DATA).sum() == 11
