"""Reads the record file of another process, while that process writes it or after it has ended."""

import os
from pathlib import Path

from paceline.recording.layout import HEADER, RECORD_BYTES, WORD_BYTES, RecordKind, parse_header

_BUSY_NAMES = {int(kind): kind.name.lower() for kind in (RecordKind.WAIT, RecordKind.EVAL, RecordKind.CHECKPOINT)}


class RecordReader:
    """Returns each record of a file once."""

    def __init__(self, path: Path, first: int = 0) -> None:
        """`first` is the number of the first record that is returned."""
        self._path = path
        self._seen_bytes = HEADER.size + first * RECORD_BYTES
        self.busy: str | None = None
        """The work other than steps (wait, eval, checkpoint) that the task was doing at the last call of `new`."""

    def new(self, at_most: int = 200_000) -> bytes:
        """Whole records written since the last call, `at_most` of them; empty if there is no record file yet."""
        try:
            with self._path.open("rb") as file:
                header = parse_header(file.read(HEADER.size))
                if header is None:
                    return b""
                self.busy = _BUSY_NAMES.get(header.busy)
                unread_bytes = min(WORD_BYTES * header.next_word - self._seen_bytes, at_most * RECORD_BYTES)
                if unread_bytes <= 0:
                    return b""
                file.seek(self._seen_bytes)
                data = file.read(unread_bytes)
        except FileNotFoundError:
            return b""
        whole_bytes = len(data) - len(data) % RECORD_BYTES
        self._seen_bytes += whole_bytes
        return data[:whole_bytes]


def truncate_unused(path: Path) -> None:
    """Give back the disk space reserved for further records. Only for a task that has ended."""
    with path.open("r+b") as file:
        if header := parse_header(file.read(HEADER.size)):
            used_bytes = WORD_BYTES * header.next_word
            file.truncate(min(used_bytes, os.fstat(file.fileno()).st_size))
