"""Vectors that processes of one machine share: where workers and servers are neighbours, values need not travel.

A segment is an anonymous file that others open through its owner's entry in /proc, which the system allows to the
same user only. It has no name to clash or to be left behind, and goes when the last process that maps it does.
"""

import mmap
import os
import re
import weakref

import numpy as np

from paceline.errors import RunError
from paceline.workloads.parameters import Vector

SEGMENT = "memory"
"""Where a task's segment is, among its addresses."""
_PATH = re.compile(r"/proc/\d{1,10}/fd/\d{1,10}")
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


class Segment:
    """A vector of float32 in memory of its own. Its file is open as long as the segment is, for others to find."""

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("paceline")
        os.truncate(self._file, 4 * size)
        self.vector = _mapped(self._file, size)
        weakref.finalize(self, os.close, self._file)

    @property
    def path(self) -> str:
        return path_of(self._file)


def path_of(file: int) -> str:
    """Where neighbours of the same user find an open file of this process."""
    return f"/proc/{os.getpid()}/fd/{file}"


def is_peer_path(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


def map_peer_vector(path: str, size: int) -> Vector:
    """The vector of another process's segment."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError as error:
        raise RunError(f"cannot share memory with a neighbour ({error.strerror}): add --set transport=tcp") from None
    try:
        if os.fstat(file).st_size != 4 * size:
            raise RunError("a neighbour shares memory of another size than the model's")
        return _mapped(file, size)
    finally:
        os.close(file)


def _mapped(file: int, size: int) -> Vector:
    # Its pages are made now: made as they are first used, they would slow the first steps down.
    return np.frombuffer(mmap.mmap(file, 4 * size, mmap.MAP_SHARED | _POPULATE), np.float32)
