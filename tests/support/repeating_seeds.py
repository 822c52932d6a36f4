"""Makes the seeds repeat from which TensorFlow's threads number their requests.

TensorFlow reads the seeds from /dev/urandom. A process started by this module has a mount namespace of its own, in
which a pipe with chosen seeds replaces /dev/urandom. So what normally happens once in ten thousands of requests happens
to every few.
"""

import fcntl
import os
import secrets
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SEED_BYTES = 4
_PIPE_BYTES = 65536
_DISTINCT_SEEDS = 200
"""Seeds at the start that do not repeat: a process draws some seeds for other purposes than requests."""
_REPLACE_URANDOM = 'mount --bind "$0" /dev/urandom && exec "$@"'


class RepeatingSeeds:
    """A pipe with seeds, of which every `repeat_every`th is that before it."""

    def __init__(self, path: Path, repeat_every: int) -> None:
        os.mkfifo(path)
        self._path = path
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        seeds = [secrets.token_bytes(_SEED_BYTES) for _ in range(_PIPE_BYTES // _SEED_BYTES)]
        seeds[_DISTINCT_SEEDS::repeat_every] = seeds[_DISTINCT_SEEDS - 1 : -1 : repeat_every]
        assert os.write(self._pipe, b"".join(seeds)) == _PIPE_BYTES

    @property
    def launcher(self) -> tuple[str, ...]:
        """The start of a command whose process reads the seeds."""
        return ("unshare", "--mount", "sh", "-c", _REPLACE_URANDOM, str(self._path))

    @property
    def drawn(self) -> int:
        """How many seeds have been read."""
        (left,) = struct.unpack("i", fcntl.ioctl(self._pipe, termios.FIONREAD, b"\0" * 4))
        return (_PIPE_BYTES - int(left)) // _SEED_BYTES

    def close(self) -> None:
        os.close(self._pipe)
        self._path.unlink()


@contextmanager
def repeating_seeds(path: Path, repeat_every: int) -> Iterator[RepeatingSeeds]:
    seeds = RepeatingSeeds(path, repeat_every)
    try:
        yield seeds
    finally:
        seeds.close()
