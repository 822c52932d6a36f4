"""Vectors in memory that several processes of one host share, so that values need not be sent in messages.

A segment is an anonymous file (memfd) that other processes open through its owner's entry in /proc, which the kernel
allows only to processes of the same user. It has no name that could clash or remain on disk, and the kernel frees it
when the last process that maps it ends.
"""

import mmap
import os
import re
import weakref

import numpy as np

from paceline.errors import PeersGone, RunError
from paceline.workloads.parameters import Vector

SEGMENT = "memory"
"""The key of a segment's path among the addresses that a task announces to its peers."""
_PEER_PATH = re.compile(r"/proc/\d{1,10}/fd/\d{1,10}")
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


class Segment:
    """A float32 vector in new shared memory. Its file stays open as long as this object lives, so that others can open
    it."""

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("paceline")
        os.truncate(self._file, 4 * size)
        self.vector = _map_vector(self._file, size)
        weakref.finalize(self, os.close, self._file)

    @property
    def path(self) -> str:
        return peer_path(self._file)


def peer_path(file: int) -> str:
    """The path under which other processes of the same user can open an open file of this process."""
    return f"/proc/{os.getpid()}/fd/{file}"


def is_peer_path(path: str) -> bool:
    """Whether `path` has the form that `peer_path` returns."""
    return _PEER_PATH.fullmatch(path) is not None


def map_peer_vector(path: str, size: int) -> Vector:
    """The vector of another process's segment."""
    try:
        file = os.open(path, os.O_RDWR)
    except (FileNotFoundError, ProcessLookupError):
        raise PeersGone("a peer is gone, whose memory this task was to share") from None
    except OSError as error:
        raise RunError(f"cannot share memory with a peer ({error.strerror}): add --set transport=tcp") from None
    try:
        if (bytes_found := os.fstat(file).st_size) != 4 * size:
            raise RunError(
                f"the shared memory of a peer has {bytes_found} bytes, not the {4 * size} that the model needs"
            )
        return _map_vector(file, size)
    finally:
        os.close(file)


def _map_vector(file: int, size: int) -> Vector:
    # MAP_POPULATE allocates all pages now; allocating them at first use would slow down the first steps.
    return np.frombuffer(mmap.mmap(file, 4 * size, mmap.MAP_SHARED | _POPULATE), np.float32)
