"""What was recorded and not collected is found, once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode
from paceline.store.journal import Journal, TaskRecords
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


def steps_in(found: list[TaskRecords]) -> list[int]:
    return [int(update) for entry in found for update in decode(entry.data)["update"]]


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_rest_of_a_file_is_found_after_what_was_shipped(
    tmp_path_factory: pytest.TempPathFactory, shipped: int, more: int
) -> None:
    paths = RunPaths(tmp_path_factory.mktemp("run"))
    data = recorded(paths, range(shipped + more))
    if shipped:
        Journal(paths.journal).add(TaskRecords("w0", data[: shipped * len(data) // (shipped + more)]))
    assert steps_in(unshipped_records(paths)) == list(range(shipped, shipped + more))


def test_a_file_of_a_later_process_is_all_new(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    Journal(paths.journal).add(TaskRecords("w0", recorded(paths, range(5))))
    recorded(paths, range(5, 8))
    assert steps_in(unshipped_records(paths)) == [5, 6, 7]


def test_a_file_that_is_none_of_ours_is_left_out(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    (paths.spool / "h1").mkdir(parents=True)
    (paths.spool / "h1" / "w0.records").write_bytes(b"garbage" * 100)
    assert unshipped_records(paths) == []
