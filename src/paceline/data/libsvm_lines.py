"""The lines of a text file, plain or gzipped, block by block: empty ones and comments left out, memory bounded."""

import zlib
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

LONGEST_LINE = 2**20
_BLOCK = 2**18
_GZIP = b"\x1f\x8b"
_SPACE = 32  # and everything below: a line that begins so is looked at more closely


class Lines(NamedTuple):
    """Some lines that say something, each with its end of line, and the numbers they have in their file."""

    text: bytes
    numbers: NDArray[np.int64]


class LineReader:
    """Goes through a file once, and again from the start if told to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._bounds: list[int] = []
        """where in the block each line begins, and where the last one ends"""
        self._next = 0
        """which line of the block is the next"""
        self.rewind()

    def rewind(self) -> None:
        self.close()
        self._carry = b""  # the beginning of a line whose end is still to come
        self._read = 0  # lines, with those left out
        self._hold(b"", np.zeros(0, np.int64))

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file = None

    def skip(self, count: int) -> int:
        """Passes over so many lines without a look at what they say; fewer if the file ends."""
        left = count
        while left and (self._next < len(self._numbers) or self._load()):
            passed = min(left, len(self._numbers) - self._next)
            self._next += passed
            left -= passed
        return count - left

    def take(self, count: int) -> Lines:
        """The next lines; fewer if the file ends."""
        texts: list[bytes] = []
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        while count and (self._next < len(self._numbers) or self._load()):
            last = min(self._next + count, len(self._numbers))
            texts.append(self._text[self._bounds[self._next] : self._bounds[last]])
            numbers.append(self._numbers[self._next : last])
            count -= last - self._next
            self._next = last
        return Lines(b"".join(texts), np.concatenate(numbers))

    def _load(self) -> bool:
        """Makes the next block the one to take from; False at the end of the file."""
        text = self._complete_lines()
        if not text:
            return False
        block = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(block == ord("\n")) + 1
        starts = np.concatenate(([0], ends[:-1]))
        lengths = ends - starts
        if lengths.max() > LONGEST_LINE:
            self._refuse_long_line(int(lengths.argmax()))
        numbers = np.arange(self._read + 1, self._read + 1 + len(ends))
        self._read += len(ends)
        if b"#" in text or (block[starts] <= _SPACE).any():
            text, numbers = _without_empty(text, numbers)
        self._hold(text, numbers)
        return True

    def _complete_lines(self) -> bytes:
        """At least one whole line, or nothing at the end of the file."""
        text = self._carry
        while block := self._block():
            whole, newline, rest = block.rpartition(b"\n")
            if newline:
                self._carry = rest
                return text + whole + newline
            text += block
            if len(text) > LONGEST_LINE:
                self._refuse_long_line(0)
        self._carry = b""
        return text and text + b"\n"

    def _block(self) -> bytes:
        try:
            if self._file is None:
                self._file = _open(self.path)
            return self._file.read(_BLOCK)
        except (OSError, EOFError, zlib.error) as why:
            reason = getattr(why, "strerror", None) or why
            raise DataError(f"cannot read {self.path} beyond line {self._read}: {reason}") from None

    def _hold(self, text: bytes, numbers: NDArray[np.int64]) -> None:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        self._text, self._numbers, self._next = text, numbers, 0
        self._bounds = [0, *ends.tolist()]

    def _refuse_long_line(self, after: int) -> None:
        raise DataError(f"{self.path}, line {self._read + after + 1}: longer than {LONGEST_LINE} bytes")


def _open(path: Path) -> IO[bytes]:
    file = path.open("rb")
    packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if not packed:
        return file
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))


def _without_empty(text: bytes, numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """Comments cut off, and the lines that are empty then."""
    lines = [line.partition(b"#")[0].strip() for line in text.split(b"\n")[:-1]]
    kept = [place for place, line in enumerate(lines) if line]
    return b"".join(lines[place] + b"\n" for place in kept), numbers[kept]
