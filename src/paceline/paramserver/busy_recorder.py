"""How busy a server is, noted a few times a second by a thread beside it. The server's own loop is not asked: what each
request would have to tell of itself costs more than all of this."""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder, clock_ns

_STRETCH_S = 0.1


class BusyRecorder:
    """Inside of its `with`: a record for each stretch of time, with how much of it the thread that made this had
    something to do. A wait for a core is in the stretch in which it ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy_ns = clock_of_this_thread()
        self._since_ns, self._told_ns = clock_ns(), self._busy_ns()
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="diary", daemon=True)

    def __enter__(self) -> None:
        self._keeper.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._keeper.join()
        self._write()
        # The end of the last stretch.
        self._write()

    def _keep(self) -> None:
        while not self._closing.wait(_STRETCH_S):
            self._write()

    def _write(self) -> None:
        now_ns, busy_ns = clock_ns(), self._busy_ns()
        self._recorder.write(RecordKind.SERVE, self._since_ns, busy_ns - self._told_ns)
        self._since_ns, self._told_ns = now_ns, busy_ns


def clock_of_this_thread() -> Callable[[], int]:
    """How long the calling thread had a core or waited for one, in ns; any thread may ask, for as long as it lives.
    Where nobody counts waiting: how long it had a core."""
    schedstat = _schedstat(threading.get_native_id())
    if schedstat is not None:
        return schedstat.read
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(threading.get_ident())
        return lambda: time.clock_gettime_ns(clock)
    return time.process_time_ns


def _schedstat(thread: int) -> "_Schedstat | None":
    try:
        found = _Schedstat(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None
    # A kernel that is built to count but told not to says 0, also of a thread that runs.
    return found if found.read() else None


class _Schedstat:
    def __init__(self, file: int) -> None:
        self._file = file

    def read(self) -> int:
        had_core, waited, _ = os.pread(self._file, 100, 0).split()
        return int(had_core) + int(waited)

    def __del__(self) -> None:
        os.close(self._file)
