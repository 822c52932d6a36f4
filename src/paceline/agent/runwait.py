"""How long the threads of a Linux process were runnable but waited for a core, from /proc/PID/task/TID/schedstat."""

from paceline.agent.threads import ThreadFiles

_NOT_COUNTED = b"0 0 0\n"
"""Content of schedstat of every thread if the kernel has scheduler statistics but they are switched off."""


class RunWait:
    """Total over all threads seen so far; an ended thread counts with the value that was read last.

    The kernel adds a wait to its counter when the wait ends, so a wait under way is not included yet. Waiting
    because a cgroup's CPU limit is used up counts as well.
    """

    def __init__(self, threads: ThreadFiles) -> None:
        self._threads = threads
        self._waited_ns: dict[str, int] = {}
        self._ended_ns = 0
        self._is_counted = False

    def read(self) -> float | None:
        """Seconds so far; None if the kernel does not count them. Slow: it reads a file for every thread."""
        contents = self._threads.read("schedstat")
        self._is_counted = self._is_counted or any(content != _NOT_COUNTED for content in contents.values())
        waited_ns = {thread: int(content.split()[1]) for thread, content in contents.items() if content}
        for thread, before_ns in self._waited_ns.items():
            # A lower value means that the thread ended and a new thread has its id.
            if before_ns > waited_ns.get(thread, -1):
                self._ended_ns += before_ns
        self._waited_ns = waited_ns
        return (self._ended_ns + sum(waited_ns.values())) / 1e9 if self._is_counted else None
