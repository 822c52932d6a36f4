"""Memory and disks of which there is little."""

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

from live import until

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs root for memory limits and small disks"
)


@contextmanager
def memory_limit(megabytes: int) -> Iterator[Path]:
    """A cgroup whose processes may have so much together; those that are still in it at the end are killed."""
    version_1, version_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    within = version_1 if version_1.is_dir() else version_2
    group = within / f"test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        limit = group / ("memory.limit_in_bytes" if within is version_1 else "memory.max")
        if not limit.exists():
            pytest.skip("the kernel's memory controller is not to be had")
        limit.write_text(str(megabytes * 10**6))
        yield group
    finally:
        until(lambda: not _kill_all(group), "the end of who is in the cgroup")
        group.rmdir()


def _kill_all(group: Path) -> bool:
    """Whether there was anybody."""
    processes = (group / "cgroup.procs").read_text().split()
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    return bool(processes)


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        # Whoever still has a file open there keeps nobody from going on.
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(disk: Path) -> Path:
    """To the last byte; returns the file to remove to make room again."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (10**6, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return disk / "filler"
