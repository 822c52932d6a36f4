"""A task's process as its agent sees it, to its end."""

import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from live import gone
from paceline.agent import tasks
from paceline.agent.tasks import RunningTask
from paceline.data.dataset import PreparedData
from paceline.messages import Failed, FromAgent, Log, Receiver, Sender, StartTask, TaskExited, TaskMessage
from paceline.train.context import Job

NO_SUCH_WORKLOAD = Job(
    run="test", task="w0", role="w", index=0, workers=1, servers=0, address="127.0.0.1", workload="nothing", size="",
    examples=None, momentum=0.0, transport=None, data=PreparedData(paths=(), source="", synthetic=True), engine="torch",
    strategy="single", synchronous=True, batch=10, seed=1, lr=0.5, stop=(), update_limit=None, updates_per_epoch=1,
    eval_every=None, eval_examples=None, checkpoint_every=None, threads=1, trace_every=None, record=True, secrets={},
)  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_task_stays_until_its_agent_has_looked_at_it_a_last_time(tmp_path: Path) -> None:
    up = io.BytesIO()
    threads_seen: list[int] = []
    told: list[str] = []

    def look(name: str) -> None:
        told.append(name)
        # So often that it would have ended by now, if it did not wait.
        threads_seen.extend(len(os.listdir(f"/proc/{task.pid}/task")) for _ in range(1000))

    order = StartTask("w0", msgspec.Raw(msgspec.msgpack.encode(NO_SUCH_WORKLOAD)), {})
    task = RunningTask(order, tmp_path, [], os.environ, Sender(up), look)
    task.join(timeout_s=60)
    assert not psutil.pid_exists(task.pid)
    assert told == ["w0"]
    assert len(threads_seen) == 1000
    assert min(threads_seen) >= 2  # its main thread, and the one that listens to its agent

    up.seek(0)
    says = Receiver[FromAgent](up, FromAgent)
    messages = [message for message in iter(says.receive, None) if not isinstance(message, Log)]
    said, exited = messages
    assert isinstance(said, TaskMessage)
    assert isinstance(said.message, Failed)
    assert "nothing" in said.message.user_line
    assert isinstance(exited, TaskExited)
    assert exited.code == 1


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_death_is_seen_though_a_child_of_the_task_holds_its_pipe_and_the_child_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, child = io.BytesIO(), tmp_path / "child"
    script = f"""
import os, signal, pathlib
if (pid := os.fork()) == 0:
    signal.pause()
pathlib.Path({str(child)!r}).write_text(str(pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    monkeypatch.setattr(tasks, "_training", lambda *_: [sys.executable, "-c", script])
    task = RunningTask(StartTask("w0", msgspec.Raw(b"\x90"), {}), tmp_path, [], os.environ, Sender(up), lambda _: None)
    task.join(timeout_s=60)
    up.seek(0)
    exited = Receiver[FromAgent](up, FromAgent).receive()
    assert isinstance(exited, TaskExited)
    assert exited.code == -signal.SIGKILL
    # It was killed before that was said; the kernel takes a moment to carry it out.
    with suppress(psutil.NoSuchProcess):
        gone([psutil.Process(int(child.read_text()))], deadline_s=10)
