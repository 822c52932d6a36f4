"""The names of record files. Each process of a task has its own file, so that no process overwrites unread records."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

_NAME = re.compile(r"(?P<task>[^.]+)(?:\.(?P<process>\d+))?\.records")


def new_record_file(spool: Path, task: str) -> Path:
    """The record file for the next process of a task: `w0.records`, after a restart `w0.2.records`, and so on."""
    paths = (spool / (f"{task}.{number}.records" if number > 1 else f"{task}.records") for number in count(1))
    path = next(path for path in paths if not path.exists())
    path.touch()  # Takes the name, also if the process ends before it has written a record.
    return path


def record_files(spool: Path) -> dict[str, list[Path]]:
    """The record files of all agents below `spool`, by task, in the order of the task's processes."""
    files: dict[str, list[tuple[int, Path]]] = {}
    for path, match in _matching(spool):
        files.setdefault(match["task"], []).append((int(match["process"] or 1), path))
    return {task: [path for _, path in sorted(numbered)] for task, numbered in sorted(files.items())}


def _matching(spool: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in spool.glob("*/*.records"):
        if (match := _NAME.fullmatch(path.name)) and path.is_file():
            yield path, match
