"""What an agent ships of the output of a process: everything, or the first and the last part of a flood."""

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.agent import task_log
from paceline.agent.task_log import TaskLog

FIRST, LAST = 40, 20


@given(st.lists(st.one_of(st.none(), st.integers(1, 50)), max_size=20), st.integers(0, 100))
def test_the_first_and_the_last_part_are_shipped(
    tmp_path_factory: pytest.TempPathFactory, writes: list[int | None], earlier_bytes: int
) -> None:
    """`writes`: sizes of what the process writes; None stands for a shipment."""
    path = tmp_path_factory.mktemp("log") / "w0.log"
    path.write_bytes(b"e" * earlier_bytes)  # The output of an earlier process of this task.
    text = bytes(ord("a") + number % 26 for number in range(sum(size or 0 for size in writes)))
    with patch.multiple(task_log, FIRST_BYTES=FIRST, LAST_BYTES=LAST, _CHUNK_BYTES=7, _FILE_BYTES=FIRST + LAST):
        log, shipped, written = TaskLog(path), b"", 0
        with log.open() as file:
            for size in writes:
                if size is None:
                    shipped += b"".join(log.new_text())
                    assert path.stat().st_size <= max(earlier_bytes, 0) + FIRST + LAST + 50 * len(writes)
                else:
                    file.write(text[written : written + size])
                    file.flush()
                    written += size
        shipped += b"".join(log.rest())
    if len(text) <= FIRST + LAST:
        assert shipped == text
        return
    assert shipped.startswith(text[:FIRST])
    assert shipped.endswith(text[-LAST:])
    note = shipped[FIRST:-LAST].decode()
    assert re.search(r"([\d,]+) bytes of output are left out here", note)
    assert int(re.findall(r"[\d,]+", note)[0].replace(",", "")) == len(text) - FIRST - LAST


def test_a_file_that_has_been_shipped_does_not_grow_without_limit(tmp_path: Path) -> None:
    with patch.multiple(task_log, FIRST_BYTES=FIRST, LAST_BYTES=LAST, _FILE_BYTES=FIRST + LAST):
        log = TaskLog(tmp_path / "w0.log")
        with log.open() as file:
            for _ in range(100):
                file.write(b"x" * 50)
                file.flush()
                list(log.new_text())
                assert (tmp_path / "w0.log").stat().st_size <= FIRST + LAST
