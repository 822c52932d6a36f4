"""How an agent runs the process of a task until it ends."""

import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from paceline.agent import tasks
from paceline.agent.tasks import RunningTask
from paceline.data.dataset import PreparedData
from paceline.messages import Failed, FromAgent, Log, Receiver, Records, Sender, StartTask, TaskExited, TaskMessage
from paceline.recording.rows import decode
from paceline.train.context import Job
from support.live_run import wait_for_exit
from support.optimizers import sgd

NO_SUCH_WORKLOAD = Job(
    run="test", task="w0", role="w", index=0, workers=1, servers=0, address="127.0.0.1", workload="nothing", size="",
    examples=None, transport=None, data=PreparedData(paths=(), source="", synthetic=True), engine="torch",
    entry_point="paceline.engines.torch.worker:run",
    strategy="single", synchronous=True, batch=10, seed=1, optimizer=sgd(0.5), stop=(),
    update_limit=None, updates_per_epoch=1,
    eval_every=None, eval_examples=None, checkpoint_every=None, threads=1, trace_every=None, record=True, secrets={},
)  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_task_does_not_exit_before_its_agent_has_measured_it_a_last_time(tmp_path: Path) -> None:
    sent = io.BytesIO()
    thread_counts: list[int] = []
    names: list[str] = []

    def count_threads(name: str) -> None:
        names.append(name)
        # Often enough that the process would have ended meanwhile, if it did not wait.
        thread_counts.extend(len(os.listdir(f"/proc/{task.pid}/task")) for _ in range(1000))

    request = StartTask("w0", msgspec.Raw(msgspec.msgpack.encode(NO_SUCH_WORKLOAD)), {})
    task = RunningTask(request, tmp_path, [], os.environ, Sender(sent), count_threads)
    task.join(timeout_s=60)
    assert not psutil.pid_exists(task.pid)
    assert names == ["w0"]
    assert len(thread_counts) == 1000
    assert min(thread_counts) >= 2  # the main thread, and the thread that reads messages from the agent

    sent.seek(0)
    receiver = Receiver[FromAgent](sent, FromAgent)
    messages = [message for message in iter(receiver.receive, None) if not isinstance(message, Log)]
    from_task, exited = messages
    assert isinstance(from_task, TaskMessage)
    assert isinstance(from_task.message, Failed)
    assert "nothing" in from_task.message.user_line
    assert isinstance(exited, TaskExited)
    assert exited.code == 1


RECORD_STEPS = """
import sys, pathlib
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder
sys.stdin.buffer.read()  # Returns when the agent closes the pipe.
recorder = Recorder(pathlib.Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    recorder.write(RecordKind.STEP, start_ns=1000 + number, duration_ns=1, update=number)
"""


def test_records_of_a_restarted_task_are_shipped_once_although_its_new_process_starts_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = io.BytesIO()
    for first, last in ((0, 30), (30, 40)):
        monkeypatch.setattr(
            tasks,
            "_training_command",
            lambda records, *_, args=(first, last): [sys.executable, "-c", RECORD_STEPS, str(records), *map(str, args)],
        )
        task = RunningTask(
            StartTask("w0", msgspec.Raw(b"\x90"), {}), tmp_path, [], os.environ, Sender(sent), lambda _: None
        )
        task.ship()  # The process has not opened its record file yet: it waits for the end of its input.
        assert task._process.stdin
        task._process.stdin.close()
        task.join(timeout_s=60)
    sent.seek(0)
    received = iter(Receiver[FromAgent](sent, FromAgent).receive, None)
    shipped = b"".join(message.data for message in received if isinstance(message, Records))
    assert decode(shipped)["update"].tolist() == list(range(40))


@pytest.mark.skipif(sys.platform == "win32", reason="uses fork")
def test_a_killed_task_is_reported_and_its_child_is_killed_although_the_child_keeps_the_pipe_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, child = io.BytesIO(), tmp_path / "child"
    script = f"""
import os, signal, pathlib
if (pid := os.fork()) == 0:
    signal.pause()
pathlib.Path({str(child)!r}).write_text(str(pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    monkeypatch.setattr(tasks, "_training_command", lambda *_: [sys.executable, "-c", script])
    request = StartTask("w0", msgspec.Raw(b"\x90"), {})
    task = RunningTask(request, tmp_path, [], os.environ, Sender(sent), lambda _: None)
    task.join(timeout_s=60)
    sent.seek(0)
    exited = Receiver[FromAgent](sent, FromAgent).receive()
    assert isinstance(exited, TaskExited)
    assert exited.code == -signal.SIGKILL
    # The child was killed before TaskExited was sent, but the kernel takes a moment to end it.
    with suppress(psutil.NoSuchProcess):
        wait_for_exit([psutil.Process(int(child.read_text()))], deadline_s=10)
