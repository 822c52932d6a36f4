"""Runs on machines that share nothing with the controller but the network and ssh."""

import json
import signal
from pathlib import Path

import pytest

from support.live_run import LiveRun
from support.machines import Cluster
from support.ssh_runs import OWN_WORKLOAD, assert_nothing_left, inventory, paceline, result_of


def test_a_run_over_ssh_gives_the_result_of_a_local_run_and_leaves_only_the_cache(
    machines: Cluster, tmp_path: Path
) -> None:
    machines["node2"].set_bashrc("echo welcome to node2\n")  # A greeting on the stream of the frames is harmless.
    options = ("--strategy", "ps-sync", "--layout", "pw w w", "--stop", "steps=30", "--eval-every", "10")
    remote = result_of(tmp_path, "logreg", "--hosts", inventory(machines), *options)
    local = result_of(tmp_path, "logreg", *options, "--set", "transport=tcp")
    assert remote["status"] == "ok"
    assert remote["final"]["loss"] == pytest.approx(local["final"]["loss"], rel=1e-5)
    assert [worker["host"] for worker in remote["workers"]] == ["h1", "h2", "h3"]
    # Its clock is 1,000 s ahead of that of the next machine: all times are on the run's clock nevertheless.
    assert 0 < remote["first_step_s"] < remote["total_s"]
    assert_nothing_left(machines)
    events = [json.loads(line) for line in (Path(remote["dir"]) / "events.jsonl").read_text().splitlines()]
    joined = {event["host"]: event for event in events if event["event"] == "joined"}
    assert [joined[host]["machine"] for host in ("h1", "h2", "h3")] == ["node1", "node2", "node3"]
    assert [joined[host]["address"] for host in ("h1", "h2", "h3")] == [machine.address for machine in machines]


def test_a_workload_of_the_user_and_the_modules_beside_it_are_sent(machines: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "own.py").write_text(OWN_WORKLOAD)
    (folder / "helper.py").write_text("WIDTH = 5\n")
    options = ("--engine", "torch", "--strategy", "ps-sync", "--layout", "pw w", "--stop", "steps=20")
    result = result_of(tmp_path / "runs", str(folder / "own.py"), "--hosts", inventory(machines, count=2), *options)
    assert (result["status"], result["updates"]) == ("ok", 20)
    assert_nothing_left(machines)


def test_frameworks_without_authentication_need_a_trusted_network(machines: Cluster, tmp_path: Path) -> None:
    hosts = inventory(machines, trusted=False)
    completed = paceline(
        "run", "logreg", "--hosts", hosts, "--strategy", "allreduce", "--layout", "cluster", "--runs", str(tmp_path)
    )
    assert completed.returncode == 2
    assert "trusted" in completed.stderr
    assert len(completed.stderr.strip().splitlines()) == 1


def test_hosts_that_cannot_take_part_are_named_with_the_remedy(machines: Cluster, tmp_path: Path) -> None:
    hosts = inventory(machines)
    machines["node2"].hide_engine("torch")
    completed = paceline("run", "logreg", "--hosts", hosts, "--layout", "pw w", "--strategy", "ps-sync",
                         "--stop", "steps=5", "--runs", str(tmp_path), "--json")  # fmt: skip
    result = json.loads(completed.stdout)
    assert (completed.returncode, result["status"]) == (1, "failed")
    assert result["reason"].startswith("h2 does not have the engine torch")
    assert f"paceline hosts prepare {hosts}" in result["reason"]
    machines["node2"].show_engines()
    checked = paceline("hosts", "check", inventory(machines, python="/usr/bin/python3"))
    assert checked.returncode == 1
    assert "h1 (node1): has no Paceline" in checked.stdout
    assert_nothing_left(machines)


def test_hosts_check_prints_a_row_per_machine(machines: Cluster) -> None:
    hosts = inventory(machines)
    completed = paceline("hosts", "check", hosts, "--json")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    rows = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [(row["machine"], row["address"], row["problem"]) for row in rows] == [
        (machine.name, machine.address, None) for machine in machines
    ]
    assert all({link["to"] for link in row["links"]} == {"h1", "h2", "h3"} - {row["host"]} for row in rows)
    assert all(row["engines"]["torch"] and row["cores"] >= 1 and row["clock_uncertainty_us"] > 0 for row in rows)
    machines["node3"].stop_sshd()
    refused = paceline("hosts", "check", hosts)
    assert refused.returncode == 2
    assert "cannot reach node3 by ssh" in refused.stderr


def test_a_killed_controller_leaves_nothing_on_the_machines(machines: Cluster, tmp_path: Path) -> None:
    run = LiveRun(
        tmp_path, "--hosts", inventory(machines, count=2), "--strategy", "ps-async", "--layout", "pw w",
        "--stop", "seconds=60",
    )  # fmt: skip
    run.wait_until_training()
    run.process.send_signal(signal.SIGKILL)
    run.process.communicate()
    assert_nothing_left(machines)
    shown = paceline("show", "latest", "--runs", str(tmp_path), "--json")
    assert json.loads(shown.stdout)["status"] == "aborted"


@pytest.mark.slow
def test_servers_on_another_machine_restart_from_a_checkpoint_that_was_sent_back(
    machines: Cluster, tmp_path: Path
) -> None:
    result = result_of(
        tmp_path, "logreg", "--hosts", inventory(machines, count=2), "--strategy", "ps-sync", "--layout", "w p",
        "--stop", "steps=6000", "--checkpoint-every", "500", "--on-failure", "restart",
        "--fault", "kill ps0 at step 1000",
    )  # fmt: skip
    assert (result["status"], result["updates"], result["tainted"]) == ("ok", 6000, True)
    assert_nothing_left(machines)
