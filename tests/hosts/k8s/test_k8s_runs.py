"""Runs in pods. There is no API server here: a fake kubectl starts the agents on test machines."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_kubectl import pod, write_kubectl
from support.live_run import LiveRun
from support.machines import Cluster

HOSTS = f"k8s:app=paceline,python={sys.executable}"
SETUP = ("--engine", "torch", "--strategy", "ps-sync", "--layout", "pw w")


@pytest.fixture
def pods(machines: Cluster, tmp_path: Path) -> dict[str, str]:
    """The environment in which kubectl reaches three pods: test machines that share no files with the controller."""
    names = {f"paceline-{number}": machine for number, machine in enumerate(machines)}
    listed = [pod(name, machine.address) for name, machine in names.items()]
    write_kubectl(tmp_path, listed, {name: machine.argv([]) for name, machine in names.items()})
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.slow
def test_a_run_in_pods_gives_the_loss_of_a_local_run(pods: dict[str, str], machines: Cluster, tmp_path: Path) -> None:
    losses = []
    for options in (("--hosts", HOSTS), ("--set", "transport=tcp")):
        command = [sys.executable, "-m", "paceline", "run", "logreg", "--runs", str(tmp_path / "runs"), "--json"]
        completed = subprocess.run(
            [*command, *SETUP, "--stop", "steps=20", *options],
            capture_output=True,
            text=True,
            env={**os.environ, **pods},
            timeout=200,
        )
        assert completed.returncode == 0, completed.stderr
        losses.append(json.loads(completed.stdout)["final"]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for machine in machines:
        machine.wait_until_idle()


@pytest.mark.slow
def test_nothing_is_left_in_pods_if_the_controller_is_killed(
    pods: dict[str, str], machines: Cluster, tmp_path: Path
) -> None:
    launcher = ["env", *(f"{name}={value}" for name, value in pods.items())]
    run = LiveRun(tmp_path / "runs", *SETUP, "--stop", "seconds=600", "--hosts", HOSTS, launcher=launcher)
    run.wait_until_training()
    run.process.send_signal(signal.SIGKILL)
    run.process.communicate()
    for machine in machines:
        machine.wait_until_idle()


def test_hosts_check_finds_the_software_of_a_pod(tmp_path: Path) -> None:
    write_kubectl(tmp_path, [pod("paceline-0")], {"paceline-0": ["env"]})
    completed = subprocess.run(
        [sys.executable, "-m", "paceline", "hosts", "check", HOSTS, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    row = json.loads(completed.stdout)
    assert (row["machine"], row["address"], row["problem"]) == ("paceline-0", "127.0.0.1", None)
