"""Starts the process of one task and relays its messages, step records and log to the controller."""

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

_DRAIN_TIMEOUT_S = 2.0
"""How long to read the pipe of a task that has ended: everything it sent is in the pipe and is read within that time,
but a process started by the task may keep the pipe open for longer."""
_LOG_CHUNK_BYTES = 256 * 1024


class RunningTask:
    """Relays between a task and the controller until the task ends, and then sends TaskExited.

    `before_exit` is called with the name of the task when the task is done but its process still exists.
    """

    def __init__(
        self,
        request: StartTask,
        spool: Path,
        cgroups: Sequence[str],
        env: Mapping[str, str],
        to_controller: Sender,
        before_exit: Callable[[str], None],
    ) -> None:
        self.name = request.task
        self._to_controller = to_controller
        self._before_exit = before_exit
        records, self._log_path = spool / f"{request.task}.records", spool / f"{request.task}.log"
        self._stacks_path = spool / f"{request.task}.stacks"
        self._records = RecordReader(records)
        self._busy_reported: str | None = None
        # The log of an earlier process of this task is in the same file and was shipped already.
        self._log_shipped_bytes = self._log_path.stat().st_size if self._log_path.exists() else 0
        self._ship_lock = threading.Lock()
        self._oom_kills_before = _oom_kills()
        trains = request.kind == "train"
        argv = _training_command(records, self._stacks_path, cgroups) if trains else _link_probe_command()
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=dict(env), start_new_session=True
            )
        assert self._process.stdin
        assert self._process.stdout
        self.pid = self._process.pid
        self._to_task = Sender(self._process.stdin)  # type: ignore[arg-type]
        self._send_job(request.job)
        self._from_task = Receiver[FromTask](self._process.stdout, FromTask)  # type: ignore[arg-type]
        self._relay = threading.Thread(target=self._relay_messages, name=f"relay-{self.name}", daemon=True)
        self._relay.start()
        self._waiter = threading.Thread(target=self._report_exit, name=f"wait-{self.name}", daemon=True)
        self._waiter.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, message: ToTask) -> None:
        with suppress(OSError):  # The task has ended; `_report_exit` tells the controller.
            self._to_task.send(message)

    def signal(self, number: int) -> None:
        if self.alive:
            self._process.send_signal(number)

    def ship(self) -> None:
        """Send new step records, a change of the task's activity, and new log text to the controller."""
        with self._ship_lock:
            while data := self._records.new():
                self._to_controller.send(Records(self.name, data))
            if self._records.busy != self._busy_reported:
                self._busy_reported = self._records.busy
                self._to_controller.send(Busy(self.name, self._busy_reported))
            while text := self._new_log():
                self._to_controller.send(Log(self.name, text))

    def stack_request(self) -> StackRequest:
        return StackRequest(self.name, self.pid, self._stacks_path)

    def join(self, timeout_s: float) -> None:
        self._waiter.join(timeout_s)

    def _send_job(self, job: msgspec.Raw) -> None:
        with suppress(OSError):  # The task has ended; `_report_exit` tells the controller.
            self._to_task.send_raw(bytes(job))

    def _relay_messages(self) -> None:
        try:
            while (message := self._from_task.receive()) is not None:
                if isinstance(message, Finished | Failed):
                    self._before_exit(self.name)
                    self.send(MayExit())
                if isinstance(message, Disconnected):
                    self.ship()  # The controller needs the last step records to decide from where the task continues.
                self._to_controller.send(TaskMessage(self.name, message))
        except FrameError as error:
            line = f"the task wrote bytes to its message pipe that are not a valid message: {error}"
            self._to_controller.send(TaskMessage(self.name, Failed(line, "")))
            self._process.kill()

    def _report_exit(self) -> None:
        """Wait for the process, not for the end of its pipe: processes that the task started may keep the pipe open."""
        code = self._process.wait()
        ended_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._relay.join(_DRAIN_TIMEOUT_S)
        self.ship()
        oom = code == -9 and _oom_kills() > self._oom_kills_before
        self._to_controller.send(TaskExited(self.name, code, ended_ns, oom))

    def _new_log(self) -> bytes:
        with self._log_path.open("rb") as file:
            file.seek(self._log_shipped_bytes)
            text = file.read(_LOG_CHUNK_BYTES)
        self._log_shipped_bytes += len(text)
        return text


def _link_probe_command() -> list[str]:
    return [sys.executable, "-m", "paceline.task.link_probe"]


def _training_command(records: Path, stacks: Path, cgroups: Sequence[str]) -> list[str]:
    argv = [sys.executable, "-m", "paceline.task", "--records", str(records), "--stacks", str(stacks)]
    for path in cgroups:
        argv += ["--cgroup", path]
    return argv


def _oom_kills() -> int:
    """How many processes this kernel has killed because memory ran out; 0 where it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
