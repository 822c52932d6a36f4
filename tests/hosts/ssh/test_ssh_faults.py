"""Faults of machines and connections: the host is named in time, and nothing is left on any machine."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paceline as package
from support.fault_table import FaultObserver
from support.live_run import LiveRun, wait_for
from support.machines import Cluster, Machine
from support.ssh_runs import assert_nothing_left, inventory, paceline, result_of

DETECTED_S = 20.0
"""What is promised for a host whose connection drops or that stops answering."""
TRAIN = ("--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=300")


def start(machines: Cluster, runs: Path, *options: str) -> LiveRun:
    run = LiveRun(runs, "--hosts", inventory(machines, count=2), *TRAIN, *options)
    run.wait_until_training()
    return run


def kill_ssh_client(run: LiveRun, _machine: Machine) -> None:
    tree = run.process_tree()
    next(process for process in tree if process.name() == "ssh" and "node2" in process.cmdline()).kill()


def kill_sshd_session(_run: LiveRun, machine: Machine) -> None:
    assert machine.kill_sshd_session()


def kill_agent(_run: LiveRun, machine: Machine) -> None:
    agent = next(process for process in machine.processes() if "paceline.agent" in process.command)
    machine.run(["kill", "-KILL", str(agent.pid)])


@pytest.mark.parametrize(
    "fault",
    [kill_agent, pytest.param(kill_ssh_client, marks=pytest.mark.slow),
     pytest.param(kill_sshd_session, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_lost_host_ends_the_run_by_its_name_and_nothing_is_left(
    machines: Cluster, tmp_path: Path, fault: Callable[[LiveRun, Machine], None]
) -> None:
    run = start(machines, tmp_path)
    observed = FaultObserver(run, f"{fault.__name__} (ssh)")
    fault(run, machines["node2"])
    assert_named(observed, "h2")
    assert_nothing_left(machines)


@pytest.mark.parametrize("recover", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_killed_task_ends_the_run_or_is_restarted(machines: Cluster, tmp_path: Path, recover: bool) -> None:
    options = ("--on-failure", "restart", "--stop", "steps=600") if recover else ()
    run = start(machines, tmp_path, *options)
    observed = FaultObserver(run, "kill a task (ssh)")
    # The pid is that on its machine.
    machines["node2"].run(["kill", "-KILL", str(run.pid_of("w1"))])
    if recover:
        code, result = observed.wait_for_end()
        assert (code, result["status"], result["updates"]) == (0, "ok", 600)
        assert "w1 on h2 was killed by SIGKILL" in [incident["what"] for incident in result["incidents"]]
    else:
        assert "w1 on h2 was killed by SIGKILL" in assert_named(observed, "h2")["reason"]
    assert_nothing_left(machines)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async", "allreduce"])
def test_a_cut_link_ends_the_run_and_both_sides(machines: Cluster, tmp_path: Path, strategy: str) -> None:
    layout = "w w" if strategy == "allreduce" else "pw w"
    run = start(machines, tmp_path, "--strategy", strategy, "--layout", layout)
    observed = FaultObserver(run, "cut link (ssh)")
    node = machines["node2"]
    node.cut_link()
    assert_named(observed, "h2")
    # No message can reach the machine: its agent and its tasks end by themselves.
    wait_for(lambda: not node.processes(), "the agent behind the cut link ends by its lease")
    node.restore_link()
    assert_nothing_left(machines, timeout_s=60)


@pytest.mark.slow
def test_a_host_that_stops_answering_ends_the_run(machines: Cluster, tmp_path: Path) -> None:
    run = start(machines, tmp_path)
    observed = FaultObserver(run, "host stops answering (ssh)")
    machines["node2"].stop_answering()
    result = assert_named(observed, "h2")
    assert "no answer" in result["reason"]
    machines["node2"].thaw()
    assert_nothing_left(machines, timeout_s=60)


@pytest.mark.slow
def test_a_host_that_is_lost_for_good_keeps_what_it_had_sent(machines: Cluster, tmp_path: Path) -> None:
    run = start(machines, tmp_path)
    observed = FaultObserver(run, "host crashes (ssh)")
    machines["node2"].crash()
    result = assert_named(observed, "h2")
    assert all(worker["steps"] > 0 for worker in result["workers"])
    machines["node1"].wait_until_idle()


def test_a_machine_without_space_for_the_data_is_named(machines: Cluster, tmp_path: Path) -> None:
    hosts = inventory(machines, count=2)
    machines["node2"].fill_disk(leave_bytes=2**20)
    result = failed_run(tmp_path, hosts)
    assert result["reason"].startswith("h2 ")
    assert "No space left on device" in result["reason"]
    machines["node2"].free_disk()
    assert_nothing_left(machines)


@pytest.mark.slow
def test_training_goes_on_or_ends_cleanly_if_the_disk_of_a_machine_fills_up(machines: Cluster, tmp_path: Path) -> None:
    run = start(machines, tmp_path, "--stop", "seconds=15")
    machines["node2"].fill_disk()
    code, result = run.result()
    assert (code, result["status"]) in ((0, "ok"), (1, "failed"))
    assert result["status"] == "ok" or "h2" in result["reason"]
    assert all(worker["steps"] > 0 for worker in result["workers"])
    machines["node2"].free_disk()
    assert_nothing_left(machines)


@pytest.mark.parametrize("change", ["version", "code"])
def test_a_machine_with_another_paceline_is_refused_with_the_remedy(
    machines: Cluster, tmp_path: Path, change: str
) -> None:
    hosts = inventory(machines, count=2, python=python_with_other_paceline(machines, change))
    result = failed_run(tmp_path, hosts)
    said = {"version": "has Paceline 9.9, this machine has", "code": "with other code than this machine"}[change]
    assert said in result["reason"]
    assert f"run `paceline hosts prepare {hosts}`" in result["reason"]
    assert result["updates"] == 0
    for machine in machines:
        shutil.rmtree(machine.outside(f"{machines['node1'].home}/other"))
    assert_nothing_left(machines)


def test_machines_that_cannot_reach_each_other_are_named_before_training(machines: Cluster, tmp_path: Path) -> None:
    node1, node2 = machines["node1"], machines["node2"]
    node2.run(["ip", "route", "add", "unreachable", f"{node1.address}/32"])
    try:
        completed = paceline("run", "logreg", "--hosts", inventory(machines, count=2), *TRAIN, "--runs", str(tmp_path))
        assert completed.returncode == 2
        (line,) = [line for line in completed.stderr.splitlines() if "cannot reach" in line]
        assert f"h1 cannot reach h2 at {node2.address}:" in line
        assert "open that port between the hosts" in line
        assert "neither can h2 reach h1" in line
    finally:
        node2.run(["ip", "route", "del", "unreachable", f"{node1.address}/32"])
    assert_nothing_left(machines)


def test_a_shell_that_never_starts_the_agent_is_quoted(machines: Cluster, tmp_path: Path) -> None:
    hosts = inventory(machines, count=2)
    machines["node2"].set_bashrc("echo Your password has expired.\nexit 1\n")
    completed = paceline("run", "logreg", "--hosts", hosts, *TRAIN, "--runs", str(tmp_path))
    assert completed.returncode == 2
    said = "it says 'Your password has expired.'"
    assert f"the shell of node2 ends with code 1 before it runs a command; {said}" in completed.stderr
    assert_nothing_left(machines)


def test_a_long_greeting_is_skipped(machines: Cluster, tmp_path: Path) -> None:
    machines["node2"].set_bashrc("seq 1 9000\necho to stderr >&2\n")
    options = ("--strategy", "ps-sync", "--layout", "pw w", "--stop", "steps=5")
    result = result_of(tmp_path, "logreg", "--hosts", inventory(machines, count=2), *options)
    assert (result["status"], result["updates"]) == ("ok", 5)
    assert_nothing_left(machines)


def assert_named(observed: FaultObserver, host: str) -> dict[str, Any]:
    """The result of a run that failed because of this host, and was seen to fail in time."""
    code, result = observed.wait_for_end()
    assert (code, result["status"]) == (1, "failed")
    assert host in result["reason"]
    assert observed.detected_s is not None
    assert observed.detected_s <= DETECTED_S
    return result


def failed_run(runs: Path, hosts: str) -> dict[str, Any]:
    """The result of a run that fails before it trains."""
    completed = paceline("run", "logreg", "--hosts", hosts, *TRAIN, "--runs", str(runs), "--json")
    result: dict[str, Any] = json.loads(completed.stdout)
    assert (completed.returncode, result["status"]) == (1, "failed")
    assert completed.stderr.count("Traceback") == 0
    return result


def python_with_other_paceline(machines: Cluster, change: str) -> str:
    """A Python, at the same path on every machine, that finds another version of Paceline or other code of it."""
    root = f"{machines['node1'].home}/other"
    for machine in machines:
        folder = machine.outside(root)
        folder.mkdir()
        if change == "version":
            metadata = folder / "paceline-9.9.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: paceline\nVersion: 9.9\n")
        else:
            source = Path(package.__file__).parent
            shutil.copytree(source, folder / "paceline", ignore=shutil.ignore_patterns("__pycache__"))
            with (folder / "paceline" / "units.py").open("a") as file:
                file.write("# changed\n")
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
    return f"{root}/python"
