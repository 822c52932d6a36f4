"""Serves the page beside a command, in a process of its own: the controller of a run does nothing for the page."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.errors import PageError
from paceline.versions import installed_version

_END_TIMEOUT_S = 5.0


@contextmanager
def page_beside(runs: str) -> Iterator[str]:
    """Serve the page of a runs directory while the context is open, and give its address."""
    for package in ("starlette", "uvicorn"):
        if installed_version([package]) is None:
            raise PageError(f"--ui needs {package}: pip install 'paceline[ui]'")
    # A session of its own: Ctrl-C is for the run, and the page stays until the command ends.
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline.ui", runs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise PageError("the page could not be started: try `paceline ui`, which says why")
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
