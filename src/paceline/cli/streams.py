"""The standard streams of the process, which may be closed, or be pipes whose reader has ended."""

import os
import sys
from contextlib import suppress
from typing import TextIO

from paceline.errors import UsageError


def prepare_streams() -> None:
    """Make stdout and stderr usable; UsageError if stdout is closed, since the result of a command would be lost.

    A closed stream is replaced by /dev/null, so that no file that is opened later takes its place and gets its output.
    """
    # `sys.stdout` is None if the process was started with a closed stdout. Descriptors are given out from the lowest.
    was_closed = sys.stdout is None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  # Open until the process ends.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # Print a question mark for a character that the terminal's encoding lacks, instead of raising an error.
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if was_closed:
        raise UsageError("stdout is closed, so nothing can be printed: open it, or redirect it with >/dev/null")


def error_stream() -> TextIO:
    """Where error messages go: stderr, or stdout if stderr is closed."""
    return sys.stderr if sys.stderr is not None else sys.stdout


def flush_streams() -> None:
    """Write out what is buffered. Nothing is raised if the reader of a pipe has ended."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except BrokenPipeError:
            discard(stream)


def discard(stream: TextIO) -> None:
    """Let everything that is printed on a stream from now on disappear: its reader has ended."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
