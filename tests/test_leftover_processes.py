"""Processes that a user's workload starts in a session of their own end with the run, however the run ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from paceline.process_marks import AGENT_MARK
from support.live_run import LiveRun, wait_for, wait_for_exit

WORKLOAD = """
import pathlib, subprocess, sys
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
PIDS = pathlib.Path(__file__).parent / "pids"

def start_sleepers():
    own_session = subprocess.Popen(SLEEP, start_new_session=True)
    # Its parent ends, and it keeps nothing of the environment.
    start = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], env={}, start_new_session=True).pid)"
    options = dict(stdout=subprocess.PIPE, start_new_session=True, text=True)
    starter = subprocess.Popen([sys.executable, "-c", start, *SLEEP], **options)
    PIDS.with_suffix(".new").write_text(f"{own_session.pid} {starter.stdout.readline()}")
    PIDS.with_suffix(".new").replace(PIDS)

def train(share):
    if not PIDS.exists():
        start_sleepers()
    yield np.zeros((share.batch, 2), np.float32), np.zeros(share.batch, np.int64)

WORKLOAD = Workload(
    name="sleepers", summary="", model=Model((2,), (Dense(2),)), train=train, train_examples=100, lr=0.1
)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells an agent about all processes below it")
@pytest.mark.parametrize("end", ["finish", "kill agent", "kill controller"])
def test_processes_of_a_users_workload_end_with_the_run(tmp_path: Path, end: str) -> None:
    workload = tmp_path / "sleepers.py"
    workload.write_text(WORKLOAD)
    of_another_run = subprocess.Popen(["sleep", "600"], env={**os.environ, AGENT_MARK: "0" * 16})
    try:
        run = LiveRun(tmp_path / "runs", "--stop", "seconds=3600", workload=str(workload))
        pids = wait_for((tmp_path / "pids").exists, "the processes are started") and (tmp_path / "pids").read_text()
        marked, unmarked = (psutil.Process(int(pid)) for pid in pids.split())
        agent = next(process for process in run.process_tree() if "paceline.agent" in process.cmdline())
        match end:
            case "finish":
                os.kill(run.process.pid, signal.SIGINT)
            case "kill agent":
                agent.kill()
            case "kill controller":
                run.process.kill()
        try:
            # Nobody can know to which run a process without an environment belonged after its agent was killed.
            wait_for_exit([marked] if end == "kill agent" else [marked, unmarked], deadline_s=20)
            run.process.communicate(timeout=20)
        finally:
            for process in (marked, unmarked):
                if process.is_running():
                    process.kill()
        assert of_another_run.poll() is None
    finally:
        of_another_run.kill()
        of_another_run.wait()
