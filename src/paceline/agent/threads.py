"""Reads files that the Linux kernel keeps for each thread of a process (/proc/PID/task/TID/NAME).

Files stay open between reads: opening one costs several times as much as reading it, and a TensorFlow task has about a
hundred threads.
"""

import os
import resource

_MAX_OPEN_FILES = 4096


class FileBudget:
    """How many files may stay open, shared by all readers that are given the same budget.

    Files beyond the budget are opened and closed for each read.
    """

    def __init__(self, files: int) -> None:
        self.available = files

    @classmethod
    def of_this_process(cls) -> "FileBudget":
        """At most half of the files this process may open, so that the other half is free for everything else."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(_MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, limit // 2))


class ThreadFiles:
    """The per-thread files of one process; threads may start and end between two reads."""

    def __init__(self, pid: int, budget: FileBudget) -> None:
        # The open directory stays bound to this process even if its PID is reused.
        self._directory = try_open(f"/proc/{pid}/task")
        self._budget = budget
        self._open_files: dict[str, dict[str, int]] = {}
        """File name -> thread id -> file descriptor."""

    def read(self, name: str) -> dict[str, bytes]:
        """The content of the file `name` of every living thread, by thread id; empty once the process has ended."""
        open_files, threads = self._open_files.setdefault(name, {}), self._list_threads()
        for thread in open_files.keys() - threads:
            self._close(thread)
        contents = {}
        for thread in threads:
            content = self._read_open(open_files, thread) if thread in open_files else None
            if content is None:
                content = self._open_and_read(open_files, thread, name)
            if content is not None:
                contents[thread] = content
        return contents

    def close(self) -> None:
        for thread in {thread for open_files in self._open_files.values() for thread in open_files}:
            self._close(thread)
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None

    def _list_threads(self) -> list[str]:
        try:
            return os.listdir(self._directory) if self._directory is not None else []
        except OSError:  # The process has ended.
            return []

    def _read_open(self, open_files: dict[str, int], thread: str) -> bytes | None:
        """None if the thread has ended and its id belongs to a new thread."""
        content = _try_read(open_files[thread])
        if content is None:
            self._close(thread)
        return content

    def _open_and_read(self, open_files: dict[str, int], thread: str, name: str) -> bytes | None:
        """None if the thread has ended, or the kernel has no such file."""
        file = try_open(f"{thread}/{name}", self._directory)
        if file is None:
            return None
        content = _try_read(file)
        if content is not None and self._budget.available > 0:
            open_files[thread] = file
            self._budget.available -= 1
        else:
            os.close(file)
        return content

    def _close(self, thread: str) -> None:
        """Close the thread's files of every name: reading some of them gives no error after the thread has ended."""
        for open_files in self._open_files.values():
            file = open_files.pop(thread, None)
            if file is not None:
                os.close(file)
                self._budget.available += 1


def try_open(path: str, directory: int | None = None) -> int | None:
    """A file descriptor for reading, or None if the file cannot be opened."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None


def _try_read(file: int) -> bytes | None:
    try:
        return os.pread(file, 4096, 0)
    except OSError:
        return None
