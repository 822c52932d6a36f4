"""Real processes asked where they are."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.agent import stack_dump
from paceline.agent.stack_dump import StackRequest
from talk import said

PROGRAM = """
import faulthandler, sys, threading
from paceline.agent.stack_dump import SIGNAL
faulthandler.register(SIGNAL, file=open(sys.argv[1], "ab"), all_threads=True)
threading.Thread(target=threading.Event().wait, daemon=True).start()
def stuck_here():
    print("in", flush=True)
    threading.Event().wait()
stuck_here()
"""
pytestmark = pytest.mark.skipif(stack_dump.SIGNAL is None, reason="the system has no such signal")


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[StackRequest]:
    path = tmp_path / "stacks"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert said(process) == "in"
        yield StackRequest("w0", process.pid, path)
    finally:
        process.kill()
        process.communicate()


def test_a_stuck_process_says_where_all_its_threads_are_each_time(stuck: StackRequest) -> None:
    for _ in range(2):
        (found,) = stack_dump.stacks_of([StackRequest(stuck.task, stuck.pid, stuck.path)])
        assert found.state == "sleeping"
        assert found.text.count("most recent call first") == 2
        assert found.text.count("stuck_here") == 1


def test_a_stopped_process_is_not_waited_for(stuck: StackRequest) -> None:
    os.kill(stuck.pid, signal.SIGSTOP)
    _, status = os.waitpid(stuck.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    (found,) = stack_dump.stacks_of([stuck])
    assert (found.state, found.text) == ("stopped", "")
