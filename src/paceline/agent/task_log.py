"""The log of a task's process: what the process prints, of which the first and the last part are shipped.

The process appends to a file on its host. The first part is shipped while the process runs, the last part when it has
ended. What lies between is left out, and a line in the log says how much that is.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

FIRST_BYTES = 16 * 2**20
LAST_BYTES = 4 * 2**20
"""The most that is shipped of the first and of the last part."""
_CHUNK_BYTES = 256 * 1024
_FILE_BYTES = FIRST_BYTES + LAST_BYTES
"""A file larger than this is emptied, once it is read."""


class TaskLog:
    """The output of one process. Earlier processes of the task may have written to the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._shipped_bytes = 0
        self._last = bytearray()
        self._left_out_bytes = 0

    def open(self) -> BinaryIO:
        """The file for the output of the process. It is opened to append, so that it can be emptied meanwhile."""
        return self._path.open("ab")

    def new_text(self) -> Iterator[bytes]:
        """What is to be shipped of the text since the last call, in chunks."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            while self._shipped_bytes < FIRST_BYTES:
                text = file.read(min(_CHUNK_BYTES, FIRST_BYTES - self._shipped_bytes))
                if not text:
                    return
                self._position += len(text)
                self._shipped_bytes += len(text)
                yield text
            self._keep_last(file)
        if self._position > _FILE_BYTES:
            os.truncate(self._path, 0)
            self._position = 0

    def rest(self) -> Iterator[bytes]:
        """All text that is still to be shipped. Only for a process that has ended."""
        yield from self.new_text()
        if self._left_out_bytes:
            yield (
                f"\n[paceline: {self._left_out_bytes:,} bytes of output are left out here. Of each process the first "
                f"{FIRST_BYTES // 2**20} MiB and the last {LAST_BYTES // 2**20} MiB are kept.]\n"
            ).encode()
        last = bytes(self._last)
        self._last.clear()
        for start in range(0, len(last), _CHUNK_BYTES):
            yield last[start : start + _CHUNK_BYTES]

    def _keep_last(self, file: BinaryIO) -> None:
        """Read to the end of the file, and remember the last part."""
        size = os.fstat(file.fileno()).st_size
        skipped = max(0, size - self._position - LAST_BYTES)
        file.seek(self._position + skipped)
        text = file.read(size - self._position - skipped)
        self._position += skipped + len(text)
        if skipped:
            skipped += len(self._last)
            self._last.clear()
        self._last += text
        overflow = max(0, len(self._last) - LAST_BYTES)
        del self._last[:overflow]
        self._left_out_bytes += skipped + overflow
