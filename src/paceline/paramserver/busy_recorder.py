"""Records how busy a parameter server is, ten times a second, from a thread beside the server's loop.

The loop itself records nothing: writing a record for each request would cost more than this thread does.
"""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder, clock_ns

THREAD_NAME = "busy-recorder"
_INTERVAL_S = 0.1


class BusyRecorder:
    """A context manager that writes one record per interval: how long the thread that created it was busy.

    Busy is time on a core plus time spent waiting for a core. The kernel counts a wait when it ends, so a wait belongs
    to the interval in which it ended.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy_ns = thread_busy_clock()
        self._start_ns, self._start_busy_ns = clock_ns(), self._busy_ns()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._record_intervals, name=THREAD_NAME, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._end_interval()
        # A record lasts until the start of the next one: this one marks the end of the last interval.
        self._end_interval()

    def _record_intervals(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            self._end_interval()

    def _end_interval(self) -> None:
        now_ns, busy_ns = clock_ns(), self._busy_ns()
        self._recorder.write(RecordKind.SERVE, self._start_ns, busy_ns - self._start_busy_ns)
        self._start_ns, self._start_busy_ns = now_ns, busy_ns


def thread_busy_clock() -> Callable[[], int]:
    """A function that returns how many ns the calling thread has been on a core or waiting for one.

    Any thread may call the function while the measured thread lives. Where the system does not count waiting, the
    function returns only the time on a core.
    """
    schedstat = _open_schedstat(threading.get_native_id())
    if schedstat is not None:
        return schedstat.read
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(threading.get_ident())
        return lambda: time.clock_gettime_ns(clock)
    return time.process_time_ns


def _open_schedstat(thread: int) -> "_Schedstat | None":
    """The kernel's scheduling counters of a thread; None if the system has none."""
    try:
        schedstat = _Schedstat(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None
    # With scheduling statistics turned off the file exists, but reads 0 even for a running thread.
    return schedstat if schedstat.read() else None


class _Schedstat:
    def __init__(self, file: int) -> None:
        self._file = file

    def read(self) -> int:
        """Nanoseconds on a core plus nanoseconds of waiting for one."""
        on_core, waiting, _ = os.pread(self._file, 100, 0).split()
        return int(on_core) + int(waiting)

    def __del__(self) -> None:
        os.close(self._file)
