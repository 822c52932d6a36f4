"""How long the threads of a Linux process were ready to run but had to wait for a core, from schedstat."""

from paceline.agent.threads import ThreadFiles

_UNTOLD = b"0 0 0\n"  # of every thread, where the kernel is built to count but told not to


class RunWait:
    """The total over all threads the process ever had; what an ended thread waited stays in it.

    The kernel adds a wait when it ends, so the one a thread is in the midst of is not there yet. Waiting
    for the rest of a CPU share (a cgroup's limit) counts as well.
    """

    def __init__(self, threads: ThreadFiles) -> None:
        self._threads = threads
        self._waited_ns: dict[str, int] = {}
        self._ended_ns = 0
        self._told = False

    def read(self) -> float | None:
        """Seconds so far; None if the kernel does not count them. Slow: it looks at every thread."""
        told = self._threads.tell("schedstat")
        self._told = self._told or any(text != _UNTOLD for text in told.values())
        now = {thread: int(text.split()[1]) for thread, text in told.items() if text}
        for thread, before_ns in self._waited_ns.items():
            if before_ns > now.get(thread, -1):  # it ended; another may have its number by now
                self._ended_ns += before_ns
        self._waited_ns = now
        return (self._ended_ns + sum(now.values())) / 1e9 if self._told else None
