"""Faults in real runs: the run ends in time, names the failed task, and leaves nothing behind."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from paceline.analyze.load import load_result
from paceline.hosts.netns import leftovers
from paceline.hosts.netns.iproute import NAMESPACES
from paceline.store.paths import RunPaths, find_run
from paceline.store.run import StoredRun
from support.fault_table import FaultObserver
from support.live_run import LiveRun, wait_for, wait_for_exit

COMBINATIONS = [
    ("torch", "ps-async", "pw w w", "w1"),
    ("torch", "ps-sync", "pw w w", "w2"),
    ("torch", "ps-async", "p w w", "ps0"),
    ("torch", "allreduce", "w w w", "w1"),
    ("tensorflow", "ps-async", "pw w", "w1"),
    ("tensorflow", "ps-sync", "pw w", "ps0"),
    ("tensorflow", "allreduce", "w w", "w0"),
]


@pytest.mark.parametrize(("engine", "strategy", "layout", "victim"), COMBINATIONS)
def test_killed_task_ends_the_run_and_is_named(
    tmp_path: Path, engine: str, strategy: str, layout: str, victim: str
) -> None:
    run = LiveRun(
        tmp_path / "runs", "--engine", engine, "--strategy", strategy, "--layout", layout, "--stop", "seconds=600",
        "--on-failure", "fail",
    )  # fmt: skip
    run.wait_until_training()
    assert len(run.process_tree()) >= 4
    observer = FaultObserver(run, f"kill {victim}")
    run.kill(victim)
    killed = time.monotonic()
    code, result = observer.wait_for_end()
    duration_s = time.monotonic() - killed
    exited = next(e["t_s"] for e in run.events() if e["event"] == "exited" and e["task"] == victim)
    assert exited - (killed - run.clock_zero_s) < 1
    assert code == 1
    assert result["status"] == "failed"
    host = next(e["host"] for e in run.events() if e["event"] == "started" and e["task"] == victim)
    assert result["reason"] == f"{victim} on {host} was killed by SIGKILL"
    assert [incident["task"] for incident in result["incidents"]] == [victim]
    assert sum(worker["steps"] for worker in result["workers"]) > 0
    assert duration_s < 5


@pytest.mark.slow
@pytest.mark.netns
def test_killed_task_on_netns_is_detected_within_a_second(tmp_path: Path) -> None:
    run = LiveRun(
        tmp_path / "runs", "--strategy", "ps-async", "--layout", "pw w", "--hosts", "netns", "--link", "1gbit",
        "--stop", "seconds=600", "--name", "fault-box", "--on-failure", "fail",
    )  # fmt: skip
    run.wait_until_training()
    processes = run.process_tree()
    run.kill("w1")
    killed_s = time.monotonic() - run.clock_zero_s
    code, result = run.result()
    assert (code, result["reason"]) == (1, "w1 on h2 was killed by SIGKILL")
    assert next(e["t_s"] for e in run.events() if e["event"] == "exited" and e["task"] == "w1") - killed_s < 1
    wait_for_exit(processes, deadline_s=2)


def test_ctrl_c_ends_the_sweep_and_keeps_the_result(tmp_path: Path) -> None:
    sweep = ["--batch", "50,100", "--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600"]
    run = LiveRun(tmp_path / "runs", *sweep)
    run.wait_until_training()
    processes = run.process_tree()
    os.kill(run.process.pid, signal.SIGINT)
    code, result = run.result(timeout_s=12)
    assert code == 130
    assert result["status"] == "aborted"
    assert result["updates"] > 0
    assert result["final"]["loss"] is not None
    assert len({worker["steps"] for worker in result["workers"]}) == 1
    assert len(list(run.runs.iterdir())) == 1
    wait_for_exit(processes, deadline_s=2)


class Terminal:
    """A pseudo-terminal whose output is read and dropped until it is closed."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        self.path = os.ttyname(slave)
        self._slave, self._closing = slave, threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        """Close the terminal as a window is closed: the kernel sends SIGHUP to its session."""
        self._closing.set()
        self._reader.join()
        os.close(self._slave)
        os.close(self._master)

    def _read(self) -> None:
        while not self._closing.is_set():
            if select.select([self._master], [], [], 0.05)[0]:
                os.read(self._master, 4096)


START_ON_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored if the tests were started with nohup.
terminal = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.dup2(terminal, 0)
os.dup2(terminal, 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_closed_terminal_ends_the_run_and_keeps_its_result_and_a_checkpoint(tmp_path: Path) -> None:
    terminal = Terminal()
    run = LiveRun(
        tmp_path / "runs", "--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600",
        launcher=[sys.executable, "-c", START_ON_TERMINAL, terminal.path],
    )  # fmt: skip
    try:
        run.wait_until_training()
        processes = run.process_tree()
    finally:
        terminal.close()
    os.kill(run.process.pid, signal.SIGHUP)  # A shell sends it in addition to the kernel.
    code, result = run.result(timeout_s=20)
    assert (code, result["status"], result["reason"]) == (130, "aborted", "ended because its terminal was closed")
    assert result["final"]["loss"] is not None
    assert len({worker["steps"] for worker in result["workers"]}) == 1
    assert RunPaths(run.directory).checkpoints_newest_first()
    wait_for_exit(processes, deadline_s=2)


def test_second_ctrl_c_does_not_wait_for_a_stopped_task(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600")
    run.wait_until_training()
    processes = run.process_tree()
    os.kill(run.pid_of("w1"), signal.SIGSTOP)
    os.kill(run.process.pid, signal.SIGINT)
    wait_for(lambda: any(e["event"] == "incident" for e in run.events()), "the controller handles the first Ctrl-C")
    assert run.process.poll() is None
    os.kill(run.process.pid, signal.SIGINT)
    code, result = run.result(timeout_s=5)
    assert (code, result["status"]) == (130, "aborted")
    wait_for_exit(processes, deadline_s=2)


def test_killed_controller_leaves_no_processes_and_an_aborted_run(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--strategy", "ps-async", "--layout", "pw w", "--stop", "seconds=600")
    run.wait_until_training()
    processes = run.process_tree()
    journal_bytes = run.directory.joinpath("journal.bin").stat().st_size
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for_exit(processes, deadline_s=5)
    run.process.communicate()
    listed = subprocess.run(
        [sys.executable, "-m", "paceline", "ls", "--runs", str(run.runs)], capture_output=True, text=True, check=True
    )
    assert "aborted" in listed.stdout
    paths = find_run(run.runs, "latest")
    result = load_result(paths)
    assert result.status == "aborted"
    assert result.reason == "the controller was killed"
    assert result.updates > 0
    assert StoredRun(paths).steps.height * 40 > journal_bytes * 0.5
    assert not paths.journal.exists()
    assert not paths.spool.exists()


@pytest.mark.netns
def test_killed_controller_leaves_no_namespace_and_no_cgroup(tmp_path: Path) -> None:
    run = LiveRun(
        tmp_path / "runs", "--strategy", "allreduce", "--layout", "w w", "--hosts", "netns", "--cpus", "0.5",
        "--link", "1gbit", "--stop", "seconds=600", "--name", "fault-ns",
    )  # fmt: skip
    run.wait_until_training()
    processes = run.process_tree()
    assert [name for name in _namespaces() if "fault-ns" in name]
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for_exit(processes, deadline_s=5)
    wait_for(
        lambda: not [name for name in _namespaces() if "fault-ns" in name], "the namespaces are removed", deadline_s=5
    )
    wait_for(
        lambda: not [leftover for leftover in leftovers.find() if "fault-ns" in leftover.name],
        "the cgroups are removed",
        5,
    )
    run.process.communicate()


def _namespaces() -> list[str]:
    return [entry.name for entry in Path(NAMESPACES).iterdir()]


def test_error_in_a_task_is_shown_in_one_line_and_its_traceback_is_logged(tmp_path: Path) -> None:
    """A data file is truncated between its check and the start of the task."""
    data = tmp_path / "data"
    fetch = "from paceline.data import mnist; mnist.ensure()"
    # Use synthetic digits in a separate directory, so that the user's data stays unchanged.
    env = {**os.environ, "PACELINE_DATA": str(data), "PACELINE_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", fetch], env=env, check=True)
    program = (
        "import sys, os, paceline.data.registry as registry\n"
        "ensure = registry.ensure\n"
        "def broken(*arguments):\n"
        "    ready = ensure(*arguments)\n"
        "    os.truncate(ready.paths[0], 100)\n"
        "    return ready\n"
        "registry.ensure = broken\n"
        "from paceline.cli.main import run_command\n"
        "sys.exit(run_command(sys.argv[1:]))\n"
    )
    arguments = ["run", "logreg", "--runs", str(tmp_path / "runs"), "--json"]
    completed = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 1
    assert "w0 on h1 failed: " in completed.stdout
    assert "Traceback" not in completed.stderr
    assert "Traceback" in (tmp_path / "runs" / "logreg-1" / "logs" / "w0.log").read_text()
