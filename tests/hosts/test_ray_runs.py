"""Runs on a real Ray cluster whose nodes share no files with the controller."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.live_run import LiveRun
from support.machines import Machine
from support.ray_cluster import RayCluster

pytestmark = pytest.mark.slow
TRAIN = ("--engine", "torch", "--strategy", "ps-sync", "--layout", "p w w")
# Its data is generated: the head has no network from which it could fetch files.
SHORT = ("run", "sparse-logreg", *TRAIN, "--stop", "steps=20", "--json")


def paceline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "paceline", *arguments]


def result_of(completed: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """From stdout, on which --json prints nothing else."""
    assert completed.returncode == 0, completed.stderr
    result: dict[str, Any] = json.loads(completed.stdout)
    return result


def start(ray: RayCluster, runs: Path) -> LiveRun:
    """A long run, by Ray Client."""
    launcher = ["env", *(f"{name}={value}" for name, value in ray.environment().items() if name != "_")]
    return LiveRun(runs, *TRAIN, "--stop", "seconds=600", "--hosts", "ray:auto", launcher=launcher)


def agents(machine: Machine) -> list[int]:
    return [process.pid for process in machine.processes() if "-m paceline.agent" in process.command]


def assert_nothing_left(*machines: Machine) -> None:
    """No process of a run, also not the one that removes the agent's private directory; the cache of data stays."""
    for machine in machines:
        machine.wait_until_idle()
        assert not [file for file in machine.files() if "paceline-agent-" in file]


def test_run_on_three_nodes_gives_the_loss_of_a_local_run(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """From the test process by Ray Client, also to a node without Paceline, and from a driver on the head."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 250}
    local = subprocess.run(paceline(*SHORT, "--runs", str(tmp_path), "--set", "transport=tcp"), **options)
    loss = pytest.approx(result_of(local)["final"]["loss"], rel=1e-5)
    client = ("--runs", str(tmp_path), "--hosts", f"ray:{ray_cluster.client_address}")
    ray_cluster.cluster["node3"].hide_engine("paceline")
    by_client = result_of(subprocess.run(paceline(*SHORT, *client), env=ray_cluster.environment(), **options))
    assert by_client["final"]["loss"] == loss
    events = [json.loads(line) for line in (Path(by_client["dir"]) / "events.jsonl").read_text().splitlines()]
    joined = {event["host"]: event["address"] for event in events if event["event"] == "joined"}
    assert [joined[host] for host in ("h1", "h2", "h3")] == [machine.address for machine in ray_cluster.cluster]
    on_head = ray_cluster.run(paceline(*SHORT, "--hosts", "ray:auto"), check=False, timeout_s=250)
    assert result_of(on_head)["final"]["loss"] == loss
    assert_nothing_left(*ray_cluster.cluster)


def test_killed_agent_ends_the_run_and_names_its_host(ray_cluster: RayCluster, tmp_path: Path) -> None:
    run = start(ray_cluster, tmp_path)
    run.wait_until_training()
    machine = ray_cluster.cluster["node2"]
    for pid in agents(machine):
        machine.run(["kill", "-9", str(pid)])
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "h2" in result["reason"]
    assert_nothing_left(*ray_cluster.cluster)


def test_interrupted_run_ends_with_its_results(ray_cluster: RayCluster, tmp_path: Path) -> None:
    run = start(ray_cluster, tmp_path)
    run.wait_until_training()
    os.kill(run.process.pid, signal.SIGINT)
    code, result = run.result()
    assert (code, result["status"]) == (130, "aborted")
    assert_nothing_left(*ray_cluster.cluster)


def test_too_few_nodes_are_refused_with_a_list(ray_cluster: RayCluster, tmp_path: Path) -> None:
    refused = ray_cluster.run(
        paceline(*SHORT, "--layout", "p w w w", "--hosts", "ray:auto"), check=False, timeout_s=250
    )
    assert refused.returncode == 2
    assert not refused.stdout
    line = refused.stderr.strip().splitlines()[-1]
    assert line.startswith("paceline: the layout has 4 hosts")
    for machine in ray_cluster.cluster:
        assert f"{machine.address} (16 CPUs)" in line


def test_driver_that_is_not_on_a_node_is_told_to_use_ray_client(ray_cluster: RayCluster, tmp_path: Path) -> None:
    outside = ("--hosts", f"ray:{ray_cluster.address}", "--runs", str(tmp_path))
    refused = subprocess.run(paceline(*SHORT, *outside), capture_output=True, text=True, timeout=250)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "this machine is not a node of" in refused.stderr
    assert f"--hosts ray:ray://{ray_cluster.head.address}:10001" in refused.stderr


def test_crashed_node_ends_the_run_and_names_its_host(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """Last, because the cluster is made again after it."""
    run = start(ray_cluster, tmp_path)
    run.wait_until_training()
    ray_cluster.cluster["node3"].crash()
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "h3" in result["reason"]
    assert_nothing_left(ray_cluster.cluster["node1"], ray_cluster.cluster["node2"])
