"""Starts the process of one task and relays its messages, step records and log to the controller."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from paceline.agent.orphans import kill_orphans_of_task
from paceline.agent.stack_dump import StackRequest
from paceline.agent.start_process import start_process
from paceline.agent.task_log import TaskLog
from paceline.forkserver.client import ForkServer
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
from paceline.process_marks import TASK_MARK, new_mark
from paceline.recording.reader import RecordReader, truncate_unused
from paceline.recording.record_files import new_record_file

_DRAIN_TIMEOUT_S = 2.0
"""How long to read the pipe of a task that has ended: everything it sent is in the pipe and is read within that time,
but a process started by the task may keep the pipe open for longer."""


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
        fork_server: ForkServer | None = None,
    ) -> None:
        self.name = request.task
        self._to_controller = to_controller
        self._before_exit = before_exit
        self._records_path = new_record_file(spool, request.task)
        self._stacks_path = spool / f"{request.task}.stacks"
        self._records = RecordReader(self._records_path)
        self._busy_reported: str | None = None
        self._log = TaskLog(spool / f"{request.task}.log")
        self._ship_lock = threading.Lock()
        self._mark = new_mark()
        self._oom_kills_before = _oom_kills()
        trains = request.kind == "train"
        training = _training_command(self._records_path, self._stacks_path, spool, cgroups)
        argv = training if trains else _link_probe_command()
        with self._log.open() as log:
            self._process = start_process(argv, log, env, fork_server, marks={TASK_MARK: self._mark})
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
            for text in self._log.new_text():
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
        kill_orphans_of_task(self._mark)
        self._relay.join(_DRAIN_TIMEOUT_S)
        self.ship()
        for text in self._log.rest():
            self._to_controller.send(Log(self.name, text))
        with suppress(OSError):
            truncate_unused(self._records_path)  # A run with many restarts has many record files.
        oom = code == -9 and _oom_kills() > self._oom_kills_before
        self._to_controller.send(TaskExited(self.name, code, ended_ns, oom))


def _link_probe_command() -> list[str]:
    return [sys.executable, "-m", "paceline.task.link_probe"]


def _training_command(records: Path, stacks: Path, scratch: Path, cgroups: Sequence[str]) -> list[str]:
    argv = [sys.executable, "-m", "paceline.task", "--records", str(records), "--stacks", str(stacks)]
    argv += ["--scratch", str(scratch)]
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
