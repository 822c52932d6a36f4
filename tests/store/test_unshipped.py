"""What was recorded and not collected is found, once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.record_files import new_record_file
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode
from paceline.store.journal import Journal, JournalReader, TaskRecords
from paceline.store.paths import RunPaths
from paceline.store.unshipped import unshipped_records


def recorded(paths: RunPaths, steps: range) -> bytes:
    """Leaves a worker's record file behind, and gives what is in it."""
    folder = paths.spool / "h1"
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(folder / "w0.records")
    for number in steps:
        recorder.write(RecordKind.STEP, start_ns=1000 + number, duration_ns=1, update=number)
    return RecordReader(folder / "w0.records").new()


def unshipped_steps(paths: RunPaths) -> list[int]:
    """The steps of w0 that are not in the journal."""
    paths.journal.touch()
    found = unshipped_records(paths, JournalReader(paths.journal))
    return [int(update) for data in found["w0"] for update in decode(data)["update"]]


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_rest_of_a_file_is_found_after_what_was_shipped(
    tmp_path_factory: pytest.TempPathFactory, shipped: int, more: int
) -> None:
    paths = RunPaths(tmp_path_factory.mktemp("run"))
    data = recorded(paths, range(shipped + more))
    if shipped:
        Journal(paths.journal).add(TaskRecords("w0", data[: shipped * len(data) // (shipped + more)]))
    assert unshipped_steps(paths) == list(range(shipped, shipped + more))


def test_a_file_of_a_later_process_is_all_new(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    Journal(paths.journal).add(TaskRecords("w0", recorded(paths, range(5))))
    recorded(paths, range(5, 8))
    assert unshipped_steps(paths) == [5, 6, 7]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data())
def test_the_rest_is_found_in_the_files_of_several_processes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    """Also with ten files and more, whose names are not in the order of their numbers."""
    paths = RunPaths(tmp_path_factory.mktemp("run"))
    (paths.spool / "h1").mkdir(parents=True)
    written, records = 0, b""
    for size in sizes:
        file = new_record_file(paths.spool / "h1", "w0")
        recorder = Recorder(file)
        for number in range(written, written + size):
            recorder.write(RecordKind.STEP, start_ns=1000 + number, duration_ns=1, update=number)
        records, written = records + RecordReader(file).new(), written + size
    shipped = data.draw(st.integers(0, written))
    if shipped:
        Journal(paths.journal).add(TaskRecords("w0", records[: shipped * len(records) // written]))
    assert unshipped_steps(paths) == list(range(shipped, written))


def test_a_file_that_is_none_of_ours_is_left_out(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    (paths.spool / "h1").mkdir(parents=True)
    (paths.spool / "h1" / "w0.records").write_bytes(b"garbage" * 100)
    assert unshipped_steps(paths) == []
