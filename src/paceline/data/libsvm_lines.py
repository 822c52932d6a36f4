"""Reads the lines of a text file, uncompressed or gzipped, in blocks of bounded size.

Comments and empty lines are left out.
"""

import zlib
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

MAX_LINE_BYTES = 2**20
_BLOCK_BYTES = 2**18
_GZIP_MAGIC = b"\x1f\x8b"
_SPACE = 32
"""A line may be empty if its first byte is a space or one of the control characters below it, such as a line end."""


class Lines(NamedTuple):
    """Some lines that are not empty."""

    text: bytes
    """The lines, each with its line end."""
    numbers: NDArray[np.int64]
    """The line numbers in the file, from 1."""


class LineReader:
    """Reads a file from start to end; `rewind` starts again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._bounds: list[int] = []
        """The offset of each line in the current block, and of the end of the last line."""
        self._next = 0
        """The index of the next line in the current block."""
        self.rewind()

    def rewind(self) -> None:
        self.close()
        self._incomplete = b""
        """The start of a line whose end was not read yet."""
        self._lines_read = 0
        """Lines of the file up to the end of the current block, including those left out."""
        self._set_block(b"", np.zeros(0, np.int64))

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file = None

    def skip(self, count: int) -> int:
        """Skip `count` lines without parsing them; returns how many there were, fewer if the file ends."""
        remaining = count
        while remaining and (self._next < len(self._numbers) or self._load_block()):
            skipped = min(remaining, len(self._numbers) - self._next)
            self._next += skipped
            remaining -= skipped
        return count - remaining

    def take(self, count: int) -> Lines:
        """The next `count` lines; fewer if the file ends."""
        texts: list[bytes] = []
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        while count and (self._next < len(self._numbers) or self._load_block()):
            last = min(self._next + count, len(self._numbers))
            texts.append(self._text[self._bounds[self._next] : self._bounds[last]])
            numbers.append(self._numbers[self._next : last])
            count -= last - self._next
            self._next = last
        return Lines(b"".join(texts), np.concatenate(numbers))

    def _load_block(self) -> bool:
        """Read the next block; False at the end of the file."""
        text = self._complete_lines()
        if not text:
            return False
        block = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(block == ord("\n")) + 1
        starts = np.concatenate(([0], ends[:-1]))
        lengths = ends - starts
        if lengths.max() > MAX_LINE_BYTES:
            self._raise_long_line(int(lengths.argmax()))
        numbers = np.arange(self._lines_read + 1, self._lines_read + 1 + len(ends))
        self._lines_read += len(ends)
        if b"#" in text or (block[starts] <= _SPACE).any():
            text, numbers = _without_empty(text, numbers)
        self._set_block(text, numbers)
        return True

    def _complete_lines(self) -> bytes:
        """Read until there is at least one complete line; empty at the end of the file."""
        text = self._incomplete
        while block := self._read_bytes():
            complete, newline, rest = block.rpartition(b"\n")
            if newline:
                self._incomplete = rest
                return text + complete + newline
            text += block
            if len(text) > MAX_LINE_BYTES:
                self._raise_long_line(0)
        self._incomplete = b""
        return text and text + b"\n"

    def _read_bytes(self) -> bytes:
        try:
            if self._file is None:
                self._file = _open(self.path)
            return self._file.read(_BLOCK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"cannot read {self.path} beyond line {self._lines_read}: {reason}") from None

    def _set_block(self, text: bytes, numbers: NDArray[np.int64]) -> None:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        self._text, self._numbers, self._next = text, numbers, 0
        self._bounds = [0, *ends.tolist()]

    def _raise_long_line(self, offset: int) -> None:
        raise DataError(f"{self.path}, line {self._lines_read + offset + 1}: longer than {MAX_LINE_BYTES} bytes")


def _open(path: Path) -> IO[bytes]:
    file = path.open("rb")
    is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    if not is_gzip:
        return file
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))


def _without_empty(text: bytes, numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """The lines without comments, and without the lines that are empty then."""
    lines = [line.partition(b"#")[0].strip() for line in text.split(b"\n")[:-1]]
    kept = [position for position, line in enumerate(lines) if line]
    return b"".join(lines[position] + b"\n" for position in kept), numbers[kept]
