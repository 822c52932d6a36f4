"""Collecting the stacks of real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.agent import stack_dump
from paceline.agent.stack_dump import StackRequest
from paceline.messages.stack_signal import DUMP_SIGNAL
from process_io import read_line

PROGRAM = """
import faulthandler, sys, threading
from paceline.messages.stack_signal import DUMP_SIGNAL
faulthandler.register(DUMP_SIGNAL, file=open(sys.argv[1], "ab"), all_threads=True)
threading.Thread(target=threading.Event().wait, daemon=True).start()
def stuck_here():
    print("ready", flush=True)
    threading.Event().wait()
stuck_here()
"""
pytestmark = pytest.mark.skipif(DUMP_SIGNAL is None, reason="the system has no SIGUSR2")


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[StackRequest]:
    path = tmp_path / "stacks"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert read_line(process) == "ready"
        yield StackRequest("w0", process.pid, path)
    finally:
        process.kill()
        process.communicate()


def test_a_stuck_process_writes_the_stacks_of_all_threads_each_time(stuck: StackRequest) -> None:
    for _ in range(2):
        (stacks,) = stack_dump.collect_stacks([StackRequest(stuck.task, stuck.pid, stuck.path)])
        assert stacks.state == "sleeping"
        assert stacks.text.count("most recent call first") == 2
        assert stacks.text.count("stuck_here") == 1


def test_a_stopped_process_is_not_waited_for(stuck: StackRequest) -> None:
    os.kill(stuck.pid, signal.SIGSTOP)
    _, status = os.waitpid(stuck.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    (stacks,) = stack_dump.collect_stacks([stuck])
    assert (stacks.state, stacks.text) == ("stopped", "")
