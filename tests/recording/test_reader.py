"""Reading the record file of another process."""

from pathlib import Path

import numpy as np

from paceline.recording.layout import HEADER, RECORD_BYTES, RecordKind
from paceline.recording.reader import RecordReader, truncate_unused
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode


def test_reads_on_after_the_file_has_grown(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")
    for number in range(70_000):
        recorder.write(RecordKind.PULL, number, 1)
    starts = np.concatenate([decode(reader.new(at_most=30_000))["start_ns"] for _ in range(3)])
    assert (starts == np.arange(70_000)).all()


def test_a_file_that_holds_no_records_reads_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(b"garbage" * 100)
    assert RecordReader(path).new() == b""
    assert RecordReader(tmp_path / "missing").new() == b""


def test_a_file_of_the_version_before_reads_as_empty_and_is_not_truncated(tmp_path: Path) -> None:
    path = tmp_path / "r"
    before = HEADER.pack(b"PLREC04\n", 152, 8 + 19, 0) + bytes(10 * 152)
    path.write_bytes(before)
    assert RecordReader(path).new() == b""
    truncate_unused(path)
    assert path.read_bytes() == before


def test_shows_what_the_task_is_busy_with(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path / "r"), RecordReader(tmp_path / "r")

    def busy() -> str | None:
        reader.new()
        return reader.busy

    assert busy() is None
    with recorder.busy(RecordKind.WAIT):
        assert busy() == "wait"
        with recorder.busy(RecordKind.EVAL):
            assert busy() == "eval"
        assert busy() == "wait"
        with recorder.checkpoint():
            assert busy() == "checkpoint"
    assert busy() is None


def test_truncating_keeps_all_records_and_gives_the_reserved_space_back(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path)
    for number in range(3):
        recorder.write(RecordKind.PULL, number, 1)
    recorder.close()
    before = RecordReader(path).new()
    truncate_unused(path)
    assert RecordReader(path).new() == before
    assert path.stat().st_size == HEADER.size + 3 * RECORD_BYTES
