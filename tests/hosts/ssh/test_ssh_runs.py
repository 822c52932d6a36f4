"""Runs on machines that share nothing with the controller but the network and ssh."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.live_run import LiveRun
from support.machines import Cluster

OWN_WORKLOAD = """
from helper import WIDTH
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def train(share):
    random = np.random.default_rng((share.seed, share.index))
    while True:
        x = random.normal(size=(share.batch, WIDTH)).astype("float32")
        yield x, (x[:, 0] > 0).astype("int64")

WORKLOAD = Workload(name="own", model=Model((WIDTH,), (Dense(2),)), train=train, train_examples=1000)
"""


def inventory(machines: Cluster, *, count: int = 3, trusted: bool = True, **fields: str) -> str:
    """`ssh:FILE` for the machines, with the Python of the tests, which they see read-only."""
    path = machines.folder / "hosts.toml"
    lines = {"python": sys.executable, "ssh_config": str(machines.ssh_config), **fields}
    text = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    text += f"trusted_network = {str(trusted).lower()}\n"
    path.write_text(text + "".join(f'[[host]]\nssh = "{machine.name}"\n' for machine in machines.machines[:count]))
    return f"ssh:{path}"


def paceline(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def result_of(runs: Path, workload: str, *arguments: str) -> dict[str, Any]:
    completed = paceline("run", workload, "--runs", str(runs), "--json", *arguments)
    assert completed.returncode == 0, completed.stderr
    (line,) = completed.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


def assert_nothing_left(machines: Cluster) -> None:
    """No process of a run, and no file but the cache."""
    for machine in machines:
        machine.wait_until_idle()
        left = [file for file in machine.files() if ".cache" not in file and not file.endswith(".bashrc")]
        assert not left, f"{machine.name}: {left}"


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


@pytest.mark.parametrize(
    "victim",
    ["agent", pytest.param("ssh client", marks=pytest.mark.slow), pytest.param("sshd session", marks=pytest.mark.slow)],
)
def test_a_lost_host_ends_the_run_by_its_name_and_nothing_is_left(
    machines: Cluster, tmp_path: Path, victim: str
) -> None:
    run = LiveRun(
        tmp_path, "--hosts", inventory(machines, count=2), "--strategy", "ps-sync", "--layout", "pw w",
        "--stop", "seconds=60",
    )  # fmt: skip
    run.wait_until_training()
    match victim:
        case "ssh client":
            client = next(
                process for process in run.process_tree()
                if process.name() == "ssh" and "node2" in process.cmdline()
            )  # fmt: skip
            client.kill()
        case "agent":
            agent = next(p for p in machines["node2"].processes() if "paceline.agent" in p.command)
            machines["node2"].run(["kill", "-KILL", str(agent.pid)])
        case _:
            assert machines["node2"].kill_sshd_session()
    output, _ = run.process.communicate(timeout=60)
    result = json.loads(output)
    assert (run.process.returncode, result["status"]) == (1, "failed")
    assert "h2" in result["reason"]
    assert_nothing_left(machines)


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
        "--stop", "steps=400", "--checkpoint-every", "50", "--on-failure", "restart", "--fault", "kill ps0 at step 200",
    )  # fmt: skip
    assert (result["status"], result["updates"], result["tainted"]) == ("ok", 400, True)
    assert_nothing_left(machines)
