"""Files of threads that stay open, of a process whose threads come and go as it is told."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from paceline.agent.threads import FileBudget, ThreadFiles
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
# Says the number of a child that it starts, and an empty line when that has ended; twice.
HAS_CHILDREN = """
import subprocess, sys
for _ in range(2):
    sys.stdin.readline()
    child = subprocess.Popen("cat", stdin=subprocess.PIPE)
    print(child.pid, flush=True)
    sys.stdin.readline()
    child.communicate()
    print(flush=True)
"""
MANY = 100


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-c", COMES_AND_GOES]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def open_files(pid: int) -> int:
    """Of this process, those that tell of a thread of that one."""
    led_to = [os.path.realpath(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd")]
    return sum(path.startswith(f"/proc/{pid}/task/") for path in led_to)


@pytest.mark.parametrize("allowed", [MANY, 2, 0])
def test_tells_of_every_thread_there_is_however_few_files_stay_open(
    process: "subprocess.Popen[str]", allowed: int
) -> None:
    threads = ThreadFiles(process.pid, allowance := FileBudget(allowed))
    for alive in (3, 1, 3, 1):
        numbers = said(process).split()
        assert len(numbers) == alive
        for _ in range(2):
            told = threads.tell("schedstat")
            # One that was joined may take a moment more to end.
            assert told.keys() >= set(numbers)
            assert all(len(text.split()) == 3 for text in told.values())
            assert allowed - allowance.left == open_files(process.pid) == min(allowed, len(told))
        tell(process)
    process.wait()
    assert threads.tell("schedstat") == {}
    threads.close()
    assert allowance.left == allowed
    assert open_files(process.pid) == 0


def test_files_of_each_name_are_kept_apart(process: "subprocess.Popen[str]") -> None:
    said(process)
    threads = ThreadFiles(process.pid, allowance := FileBudget(MANY))
    names = {thread: text.strip() for thread, text in threads.tell("comm").items()}
    assert len(names) == 3
    assert threads.tell("schedstat").keys() == names.keys()
    assert threads.tell("not there") == {}
    assert {thread: text.strip() for thread, text in threads.tell("comm").items()} == names
    assert allowance.left == MANY - 6
    threads.close()


def test_a_file_that_is_kept_tells_what_is_new() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HAS_CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        threads = ThreadFiles(parent.pid, FileBudget(MANY))
        for _ in range(2):
            assert b"".join(threads.tell("children").values()) == b""
            tell(parent)
            child = said(parent)
            assert b"".join(threads.tell("children").values()).split() == [child.encode()]
            tell(parent)
            assert said(parent) == ""
        threads.close()


def test_of_a_thread_that_is_gone_no_file_is_kept_though_its_number_is_there(
    process: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    said(process)
    threads = ThreadFiles(process.pid, allowance := FileBudget(MANY))
    names, told = threads.tell("comm"), threads.tell("schedstat")
    real, gone = os.pread, iter([ProcessLookupError()])

    def pread(file: int, *how: int) -> bytes:
        for error in gone:
            raise error
        return real(file, *how)

    monkeypatch.setattr(os, "pread", pread)
    assert threads.tell("schedstat").keys() == told.keys()
    assert allowance.left == MANY - 5
    assert threads.tell("comm") == names
    assert allowance.left == MANY - 6
    threads.close()


def test_of_a_process_that_is_not_there_there_is_nothing_to_tell() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    threads = ThreadFiles(gone.pid, FileBudget(MANY))
    assert threads.tell("schedstat") == {}
    threads.close()


def test_as_much_is_left_for_others() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < FileBudget.of_this_process().left <= most // 2
