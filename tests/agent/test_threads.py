"""Files of threads that stay open, of a process whose threads come and go as it is told."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from paceline.agent.threads import Allowance, Threads
from talk import said, tell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")
# Says the numbers of its threads at each change: two more, then none but the first, then two new ones.
COMES_AND_GOES = """
import sys, threading
def started():
    leave = threading.Event()
    threads = [threading.Thread(target=leave.wait) for _ in range(2)]
    for thread in threads: thread.start()
    return leave, threads
def change():
    print(*(thread.native_id for thread in threading.enumerate()), flush=True)
    sys.stdin.readline()
for _ in range(2):
    leave, threads = started()
    change()
    leave.set()
    for thread in threads: thread.join()
    change()
"""
MANY = 100


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-c", COMES_AND_GOES]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("allowed", [MANY, 2, 0])
def test_tells_of_every_thread_there_is_however_few_files_stay_open(
    process: "subprocess.Popen[str]", allowed: int
) -> None:
    threads, before = Threads(process.pid, allowance := Allowance(allowed)), open_files()
    for alive in (3, 1, 3, 1):
        numbers = said(process).split()
        assert len(numbers) == alive
        for _ in range(2):
            told = threads.tell("schedstat")
            # One that was joined may take a moment more to end.
            assert told.keys() >= set(numbers)
            assert all(len(text.split()) == 3 for text in told.values())
            assert allowed - allowance.left == open_files() - before == min(allowed, len(told))
        tell(process)
    process.wait()
    assert threads.tell("schedstat") == {}
    threads.close()
    assert allowance.left == allowed
    assert open_files() == before - 1  # that of the directory


def test_files_of_each_name_are_kept_apart(process: "subprocess.Popen[str]") -> None:
    said(process)
    threads = Threads(process.pid, allowance := Allowance(MANY))
    names = {thread: text.strip() for thread, text in threads.tell("comm").items()}
    assert len(names) == 3
    assert threads.tell("schedstat").keys() == names.keys()
    assert threads.tell("not there") == {}
    assert {thread: text.strip() for thread, text in threads.tell("comm").items()} == names
    assert allowance.left == MANY - 6
    threads.close()


def test_of_a_process_that_is_not_there_there_is_nothing_to_tell() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    threads = Threads(gone.pid, Allowance(MANY))
    assert threads.tell("schedstat") == {}
    threads.close()


def test_as_much_is_left_for_others() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < Allowance.of_this_process().left <= most // 2
