"""Reading per-thread files of real processes whose threads start and end."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from paceline.agent.threads import FileBudget, ThreadFiles
from process_io import read_line, send_line

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")
# Prints the ids of its threads after each change: three threads, one, three (two of them new), one.
STARTS_AND_ENDS_THREADS = """
import sys, threading
def start_two():
    may_end = threading.Event()
    threads = [threading.Thread(target=may_end.wait) for _ in range(2)]
    for thread in threads: thread.start()
    return may_end, threads
def print_threads():
    print(*(thread.native_id for thread in threading.enumerate()), flush=True)
    sys.stdin.readline()
for _ in range(2):
    may_end, threads = start_two()
    print_threads()
    may_end.set()
    for thread in threads: thread.join()
    print_threads()
"""
# Twice: starts a child and prints its PID, then ends the child and prints an empty line.
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
MANY_FILES = 100


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-c", STARTS_AND_ENDS_THREADS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def open_files(pid: int) -> int:
    """How many files of the threads of `pid` this process has open."""
    paths = [os.path.realpath(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd")]
    return sum(path.startswith(f"/proc/{pid}/task/") for path in paths)


@pytest.mark.parametrize("allowed", [MANY_FILES, 2, 0])
def test_every_thread_is_read_however_few_files_may_stay_open(process: "subprocess.Popen[str]", allowed: int) -> None:
    threads = ThreadFiles(process.pid, budget := FileBudget(allowed))
    for alive in (3, 1, 3, 1):
        thread_ids = read_line(process).split()
        assert len(thread_ids) == alive
        for _ in range(2):
            contents = threads.read("schedstat")
            # A thread that was joined may exist for a moment longer.
            assert contents.keys() >= set(thread_ids)
            assert all(len(content.split()) == 3 for content in contents.values())
            assert allowed - budget.available == open_files(process.pid) == min(allowed, len(contents))
        send_line(process)
    process.wait()
    assert threads.read("schedstat") == {}
    threads.close()
    assert budget.available == allowed
    assert open_files(process.pid) == 0


def test_files_of_different_names_are_read_independently(process: "subprocess.Popen[str]") -> None:
    read_line(process)
    threads = ThreadFiles(process.pid, budget := FileBudget(MANY_FILES))
    names = {thread: text.strip() for thread, text in threads.read("comm").items()}
    assert len(names) == 3
    assert threads.read("schedstat").keys() == names.keys()
    assert threads.read("no such file") == {}
    assert {thread: text.strip() for thread, text in threads.read("comm").items()} == names
    assert budget.available == MANY_FILES - 6
    threads.close()


def test_a_file_that_stays_open_gives_its_new_content() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HAS_CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        threads = ThreadFiles(parent.pid, FileBudget(MANY_FILES))
        for _ in range(2):
            assert b"".join(threads.read("children").values()) == b""
            send_line(parent)
            child = read_line(parent)
            assert b"".join(threads.read("children").values()).split() == [child.encode()]
            send_line(parent)
            assert read_line(parent) == ""
        threads.close()


def test_all_files_of_an_ended_thread_are_closed_even_if_its_id_is_reused(
    process: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    read_line(process)
    threads = ThreadFiles(process.pid, budget := FileBudget(MANY_FILES))
    names, contents = threads.read("comm"), threads.read("schedstat")
    real_pread, errors = os.pread, iter([ProcessLookupError()])

    def pread(file: int, *arguments: int) -> bytes:
        for error in errors:
            raise error
        return real_pread(file, *arguments)

    monkeypatch.setattr(os, "pread", pread)
    assert threads.read("schedstat").keys() == contents.keys()
    assert budget.available == MANY_FILES - 5
    assert threads.read("comm") == names
    assert budget.available == MANY_FILES - 6
    threads.close()


def test_reading_an_ended_process_gives_nothing() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    threads = ThreadFiles(ended.pid, FileBudget(MANY_FILES))
    assert threads.read("schedstat") == {}
    threads.close()


def test_at_least_half_of_the_files_are_left_for_others() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < FileBudget.of_this_process().available <= limit // 2
