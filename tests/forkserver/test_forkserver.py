"""Processes forked from a fork server behave as if Python had been started for each of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from paceline.forkserver.client import ForkedProcess, ForkServer, ForkServerLost
from support.live_run import wait_for, wait_for_exit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork servers need Linux")

PROGRAM = """
import os, random, sys
import numpy as np

IMPORTED_BY = os.getpid()


def main():
    for line in sys.stdin:
        print(eval(line), flush=True)
    sys.exit(int(sys.argv[1]))
"""
AGENT = """
import signal, sys
from paceline.forkserver.client import ForkServer


def main():
    server = ForkServer.fork()
    children = [server.spawn([sys.executable, "-m", "program", "0"], stderr=sys.stderr) for _ in range(2)]
    print(*(child.pid for child in children), flush=True)
    print(children[0].wait(), children[1].wait(), flush=True)
    signal.pause()
"""
THREADED = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"program": PROGRAM, "agent": AGENT, "threaded": THREADED}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@contextmanager
def fork_server(folder: Path, *modules: str) -> Iterator[ForkServer]:
    server = ForkServer.start(modules, {**os.environ, "PYTHONPATH": str(folder), "COLOUR": "green"})
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server(folder: Path) -> Iterator[ForkServer]:
    with fork_server(folder, "program") as server:
        yield server


def spawn(server: ForkServer, folder: Path, module: str, *arguments: str) -> ForkedProcess:
    with (folder / "log").open("ab") as log:
        return server.spawn([sys.executable, "-m", module, *arguments], stderr=log)


def ask(process: ForkedProcess, expression: str) -> str:
    process.stdin.write(f"{expression}\n".encode())
    process.stdin.flush()
    return process.stdout.readline().decode().strip()


def test_a_forked_process_is_like_a_started_one(server: ForkServer, folder: Path) -> None:
    process = spawn(server, folder, "program", "3", "--some", "argument")
    assert ask(process, "sys.argv[1:]") == "['3', '--some', 'argument']"
    assert ask(process, "os.getpid()") == str(process.pid)
    assert ask(process, "os.getsid(0)") == str(process.pid)
    assert ask(process, "os.environ['COLOUR']") == "green"
    assert ask(process, "sys.modules['__main__'].__name__") == "program"
    assert ask(process, "IMPORTED_BY == os.getppid()") == "True"
    assert ask(process, "sys.stderr.write('to the log') and sys.stderr.flush()") == "None"
    assert (folder / "log").read_text() == "to the log"
    assert " ".join(psutil.Process(process.pid).cmdline()).split()[1:] == ["-m", "program", "3", "--some", "argument"]
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(10) == 3
    assert process.poll() == 3


def test_forked_processes_share_no_descriptors_and_no_random_numbers(server: ForkServer, folder: Path) -> None:
    processes = [spawn(server, folder, "program", "0") for _ in range(3)]
    # stdin, stdout, stderr and the directory that is being listed
    assert [ask(process, "len(os.listdir('/proc/self/fd'))") for process in processes] == ["4"] * 3
    for draw in ("random.random()", "np.random.random()", "np.random.default_rng().random()"):
        assert len({ask(process, draw) for process in processes}) == 3, draw
    # Each of them ends when its own stdin is closed, so no other process keeps that pipe open.
    for process in processes:
        process.stdin.close()
        assert process.wait(10) == 0


def test_a_signal_is_reported_as_the_exit_code(server: ForkServer, folder: Path) -> None:
    process = spawn(server, folder, "program", "0")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    process.kill()  # It has ended: no other process may get the signal.


def test_an_exception_is_exit_code_1_and_is_logged(server: ForkServer, folder: Path) -> None:
    process = spawn(server, folder, "program", "no number")
    process.stdin.close()
    assert process.wait(10) == 1
    assert "ValueError" in (folder / "log").read_text()


def test_processes_outlive_their_fork_server_but_can_be_waited_for(folder: Path) -> None:
    with fork_server(folder, "program") as server:
        process = spawn(server, folder, "program", "0")
        os.kill(psutil.Process(process.pid).ppid(), signal.SIGKILL)
        with pytest.raises(ForkServerLost):
            spawn(server, folder, "program", "0")
        assert ask(process, "1 + 1") == "2"
        assert process.poll() is None
        process.stdin.close()
        process.wait(10)


@pytest.mark.parametrize("victim", ["the process", "its fork server"])
def test_processes_of_a_forked_fork_server_end_with_it_and_with_its_owner(folder: Path, victim: str) -> None:
    with fork_server(folder, "agent", "program") as server:
        owner = spawn(server, folder, "agent")
        children = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        its_server = children[0].parent()
        assert its_server
        assert its_server.ppid() == owner.pid
        os.kill(owner.pid if victim == "the process" else its_server.pid, signal.SIGKILL)
        wait_for_exit([its_server, *children], deadline_s=10)
        if victim == "its fork server":
            assert owner.stdout.readline() == b"-9 -9\n"
            owner.kill()
        assert owner.wait(10) == -signal.SIGKILL


def test_a_module_that_starts_a_thread_is_not_forked(folder: Path) -> None:
    with fork_server(folder, "threaded") as server, pytest.raises(ForkServerLost, match="2 threads"):
        spawn(server, folder, "program", "0")


def test_a_module_that_cannot_be_imported_ends_the_fork_server(folder: Path) -> None:
    with fork_server(folder, "missing") as server, pytest.raises(ForkServerLost, match="has ended"):
        spawn(server, folder, "program", "0")


def test_the_fork_server_ends_when_its_client_is_killed(folder: Path) -> None:
    client = """
import os, time
from paceline.forkserver.client import ForkServer
server = ForkServer.start(["program"], os.environ)
print(server._process.pid, flush=True)
time.sleep(60)
"""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen([sys.executable, "-c", client], stdout=subprocess.PIPE, env=environment)
    assert process.stdout
    server = psutil.Process(int(process.stdout.readline()))
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "the fork server ends")
