"""How long the threads of a Linux process were ready to run but had to wait for a core, from schedstat."""

import os

_UNTOLD = b"0 0 0\n"  # of every thread, where the kernel is built to count but told not to


class RunWait:
    """The total over all threads the process ever had; what an ended thread waited stays in it.

    The kernel adds a wait when it ends, so the one a thread is in the midst of is not there yet. Waiting
    for the rest of a CPU share (a cgroup's limit) counts as well.
    """

    def __init__(self, pid: int) -> None:
        # The open directory stays with the process even if its number is used again.
        self._threads = _try_open(f"/proc/{pid}/task")
        self._waited_ns: dict[str, int] = {}
        self._ended_ns = 0
        self._told = False

    def read(self) -> float | None:
        """Seconds so far; None if the kernel does not count them. Slow: it looks at every thread."""
        now = self._look()
        for thread, before_ns in self._waited_ns.items():
            if before_ns > now.get(thread, -1):  # it ended; another may have its number by now
                self._ended_ns += before_ns
        self._waited_ns = now
        return (self._ended_ns + sum(now.values())) / 1e9 if self._told else None

    def close(self) -> None:
        if self._threads is not None:
            os.close(self._threads)
            self._threads = None

    def _look(self) -> dict[str, int]:
        found = {}
        for thread in self._listed():
            if text := self._schedstat(thread):
                self._told |= text != _UNTOLD
                found[thread] = int(text.split()[1])
        return found

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self._threads) if self._threads is not None else []
        except OSError:  # the process is gone
            return []

    def _schedstat(self, thread: str) -> bytes:
        try:
            file = os.open(f"{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._threads)
        except OSError:  # the thread is gone, or this kernel does not count
            return b""
        try:
            return os.read(file, 100)
        except OSError:
            return b""
        finally:
            os.close(file)


def _try_open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
