"""What the kernel tells of each thread of a Linux process, read through files that stay open: to open one costs several
times what it costs to read it, and a task of TensorFlow has a hundred threads."""

import os
import resource

_MOST_KEPT = 4096


class FileBudget:
    """How many files may stay open, for all that are given the same one; others are opened anew at each look."""

    def __init__(self, files: int) -> None:
        self.left = files

    @classmethod
    def of_this_process(cls) -> "FileBudget":
        """So many that there is as much left for everything else."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(_MOST_KEPT if most == resource.RLIM_INFINITY else min(_MOST_KEPT, most // 2))


class ThreadFiles:
    """Of one process; they may come and go from one look to the next."""

    def __init__(self, pid: int, allowance: FileBudget) -> None:
        # The open directory stays with the process even if its number is used again.
        self._folder = try_open(f"/proc/{pid}/task")
        self._allowance = allowance
        self._kept: dict[str, dict[str, int]] = {}

    def tell(self, name: str) -> dict[str, bytes]:
        """What the file of this name says, of each thread there is; nothing once the process is gone."""
        kept, listed = self._kept.setdefault(name, {}), self._listed()
        for thread in kept.keys() - listed:
            self._close(thread)
        told = {}
        for thread in listed:
            text = self._told_by_kept(kept, thread) if thread in kept else None
            if text is None:
                text = self._told_by_new(kept, thread, name)
            if text is not None:
                told[thread] = text
        return told

    def close(self) -> None:
        for thread in {thread for kept in self._kept.values() for thread in kept}:
            self._close(thread)
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self._folder) if self._folder is not None else []
        except OSError:  # The process is gone.
            return []

    def _told_by_kept(self, kept: dict[str, int], thread: str) -> bytes | None:
        """None if it is another thread's number by now."""
        text = _try_read(kept[thread])
        if text is None:
            self._close(thread)
        return text

    def _told_by_new(self, kept: dict[str, int], thread: str, name: str) -> bytes | None:
        """None if the thread is gone, or the kernel has no such file."""
        file = try_open(f"{thread}/{name}", self._folder)
        if file is None:
            return None
        text = _try_read(file)
        if text is not None and self._allowance.left > 0:
            kept[thread] = file
            self._allowance.left -= 1
        else:
            os.close(file)
        return text

    def _close(self, thread: str) -> None:
        """Its files of every name: not all of them say that a thread is gone."""
        for kept in self._kept.values():
            file = kept.pop(thread, None)
            if file is not None:
                os.close(file)
                self._allowance.left += 1


def try_open(path: str, folder: int | None = None) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None


def _try_read(file: int) -> bytes | None:
    try:
        return os.pread(file, 4096, 0)
    except OSError:
        return None
