"""One task as its agent sees it: a process, its pipes, its record file and its log."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline.agent.stack_dump import StackRequest
from paceline.messages import (
    Busy,
    Disconnected,
    Failed,
    Finished,
    FrameError,
    FromTask,
    Log,
    MayExit,
    Receiver,
    Records,
    Sender,
    StartTask,
    TaskExited,
    TaskMessage,
    ToTask,
)
from paceline.recording.reader import RecordReader

_LAST_WORDS_S = 2.0
"""What a task said before it ended is in the pipe, and takes no longer to be read."""
_LOG_CHUNK_BYTES = 256 * 1024


class RunningTask:
    """Relays between a task and the controller until the task ends, and then says how it ended."""

    def __init__(
        self,
        order: StartTask,
        spool: Path,
        cgroups: Sequence[str],
        env: Mapping[str, str],
        up: Sender,
        about_to_end: Callable[[str], None],
    ) -> None:
        self.name = order.task
        self._up = up
        self._about_to_end = about_to_end
        records, self._log_path = spool / f"{order.task}.records", spool / f"{order.task}.log"
        self._stacks_path = spool / f"{order.task}.stacks"
        self._records = RecordReader(records)
        self._busy_told: str | None = None
        # What an earlier process of this name left there is told already.
        self._log_seen = self._log_path.stat().st_size if self._log_path.exists() else 0
        self._shipping = threading.Lock()
        self._oom_before = _oom_kills()
        trains = order.kind == "train"
        argv = _training(records, self._stacks_path, cgroups) if trains else _link()
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=dict(env), start_new_session=True
            )
        assert self._process.stdin
        assert self._process.stdout
        self.pid = self._process.pid
        self._down = Sender(self._process.stdin)  # type: ignore[arg-type]
        self._write_job(order.job)
        self._says = Receiver[FromTask](self._process.stdout, FromTask)  # type: ignore[arg-type]
        self._follower = threading.Thread(target=self._follow, name=f"follow-{self.name}", daemon=True)
        self._follower.start()
        self._waiter = threading.Thread(target=self._tell_its_end, name=f"wait-{self.name}", daemon=True)
        self._waiter.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def tell(self, message: ToTask) -> None:
        with suppress(OSError):  # It is gone; its exit will be told.
            self._down.send(message)

    def signal(self, number: int) -> None:
        if self.alive:
            self._process.send_signal(number)

    def ship(self) -> None:
        """Send what is new in records and log."""
        with self._shipping:
            while data := self._records.new():
                self._up.send(Records(self.name, data))
            if self._records.busy != self._busy_told:
                self._busy_told = self._records.busy
                self._up.send(Busy(self.name, self._busy_told))
            while text := self._new_log():
                self._up.send(Log(self.name, text))

    def asked_for_stacks(self) -> StackRequest:
        return StackRequest(self.name, self.pid, self._stacks_path)

    def join(self, timeout_s: float) -> None:
        self._waiter.join(timeout_s)

    def _write_job(self, job: msgspec.Raw) -> None:
        with suppress(OSError):
            self._down.send_raw(bytes(job))

    def _follow(self) -> None:
        try:
            while (message := self._says.receive()) is not None:
                if isinstance(message, Finished | Failed):
                    self._about_to_end(self.name)
                    self.tell(MayExit())
                if isinstance(message, Disconnected):
                    self.ship()  # How far it had come decides from where it goes on.
                self._up.send(TaskMessage(self.name, message))
        except FrameError as error:
            self._up.send(TaskMessage(self.name, Failed(f"it said something that is no message of ours: {error}", "")))
            self._process.kill()

    def _tell_its_end(self) -> None:
        """Known from the system: the pipe may be held open by processes that the task has started."""
        code = self._process.wait()
        ended_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._follower.join(_LAST_WORDS_S)
        self.ship()
        oom = code == -9 and _oom_kills() > self._oom_before
        self._up.send(TaskExited(self.name, code, ended_ns, oom))

    def _new_log(self) -> bytes:
        with self._log_path.open("rb") as file:
            file.seek(self._log_seen)
            text = file.read(_LOG_CHUNK_BYTES)
        self._log_seen += len(text)
        return text


def _link() -> list[str]:
    return [sys.executable, "-m", "paceline.task.link_probe"]


def _training(records: Path, stacks: Path, cgroups: Sequence[str]) -> list[str]:
    argv = [sys.executable, "-m", "paceline.task", "--records", str(records), "--stacks", str(stacks)]
    for path in cgroups:
        argv += ["--cgroup", path]
    return argv


def _oom_kills() -> int:
    """How often this kernel has killed for want of memory; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
