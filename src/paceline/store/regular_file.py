"""Opens the files of a run only if they are regular files.

A run directory may come from somebody else, or be damaged. Reading a named pipe would wait forever, and a link to a
device such as /dev/zero never ends.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path


class NotReadable(OSError):
    """The file is not a regular file, or larger than allowed; `strerror` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """The file, opened for reading; NotReadable at once if it is a pipe, a device, a socket or a directory."""
    # Without O_NONBLOCK, opening a named pipe waits until another process writes to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotReadable("it is not a regular file")
        yield file


def read_regular(path: Path, limit: int) -> bytes:
    """The contents of a file; NotReadable if it is not a regular file or has more than `limit` bytes."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotReadable(f"it is larger than {limit // 2**20} MiB")
    return data
