"""Limits memory and disk space for tests of runs that exhaust them."""

import errno
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.live_run import wait_for

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs root for memory limits and small disks"
)


@contextmanager
def memory_limit(megabytes: int) -> Iterator[Path]:
    """A cgroup that limits the total memory of its processes; those still in it at the end are killed."""
    version_1, version_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root = version_1 if version_1.is_dir() else version_2
    group = root / f"test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        limit = group / ("memory.limit_in_bytes" if root is version_1 else "memory.max")
        if not limit.exists():
            pytest.skip("the memory controller of the kernel is not available")
        limit.write_text(str(megabytes * 10**6))
        yield group
    finally:
        wait_for(lambda: not _kill_all(group), "the processes in the cgroup end")
        group.rmdir()


def _kill_all(group: Path) -> bool:
    """Kill all processes of the cgroup; whether there were any."""
    processes = (group / "cgroup.procs").read_text().split()
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    return bool(processes)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size, mounted at `path`."""
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        # Lazy, so that a process with an open file there does not make the test fail.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk to the last byte; returns the file to remove to free the space again."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (10**6, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return disk / "filler"
