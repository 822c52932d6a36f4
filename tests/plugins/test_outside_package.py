"""An installed package adds an engine, a kind of hosts and a strategy; nothing in Paceline names them."""

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest

PACKAGE = Path(__file__).with_name("outside_package")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which pip has installed the package, without a network."""
    source, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("target")
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))  # pip writes into the source tree.
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(target), str(source)],
        check=True, timeout=200,
    )  # fmt: skip
    return target


def paceline(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, with the packages below `path` installed beside Paceline."""
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments],
        capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTHONPATH": str(path), "COLUMNS": "200"},
    )  # fmt: skip


def results(path: Path, runs: Path, *arguments: str) -> list[dict[str, Any]]:
    """What `paceline run logreg` prints with --json."""
    done = paceline(path, "run", "logreg", "--runs", str(runs), "--json", "--stop", "steps=60", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_doctor_lists_the_engine_and_the_hosts(installed: Path) -> None:
    lines = paceline(installed, "doctor").stdout.splitlines()
    assert any(line.startswith("ok") and "engine echo" in line for line in lines)
    assert any(line.startswith("ok") and "hosts plain" in line for line in lines)


def test_the_engine_computes_what_torch_computes(installed: Path, tmp_path: Path) -> None:
    echo, torch = results(installed, tmp_path, "--engine", "echo,torch", "--hosts", "plain")
    assert (echo["engine"], echo["hosts_kind"], echo["status"]) == ("echo", "plain", "ok")
    assert echo["updates"] == 60
    assert echo["final"]["loss"] == pytest.approx(torch["final"]["loss"], rel=1e-4)
    assert echo["final"]["accuracy"] == pytest.approx(torch["final"]["accuracy"], abs=2e-3)


def test_two_workers_compute_what_one_computes_with_twice_the_batch(installed: Path, tmp_path: Path) -> None:
    run = ("--engine", "echo", "--hosts", "plain")
    (together,) = results(installed, tmp_path, *run, "--strategy", "allreduce", "--layout", "w w", "--batch", "50")
    (alone,) = results(installed, tmp_path, *run, "--batch", "100")
    assert [worker["steps"] for worker in together["workers"]] == [60, 60]
    assert together["examples"] == alone["examples"] == 6000
    assert together["final"]["loss"] == pytest.approx(alone["final"]["loss"], rel=1e-4)
    assert all(worker["phases"]["push"] > 0 for worker in together["workers"])
    events = map(json.loads, (Path(together["dir"]) / "events.jsonl").read_text().splitlines())
    joined = {event["host"]: event for event in events if event["event"] == "joined"}
    assert sorted(joined) == ["h1", "h2"]
    for event in joined.values():
        versions = {"python": platform.python_version(), "paceline": version("paceline"), "echo": version("numpy")}
        assert event["versions"] == versions
        assert event["free_disk_bytes"] > 0


def test_workers_that_average_their_parameters_now_and_then_learn_as_well_as_with_allreduce(
    installed: Path, tmp_path: Path
) -> None:
    run = ("--engine", "echo", "--hosts", "plain", "--layout", "w w")
    (averaging,) = results(installed, tmp_path, *run, "--strategy", "periodic-averaging")
    (allreduce,) = results(installed, tmp_path, *run, "--strategy", "allreduce")
    assert averaging["status"] == "ok"
    assert [worker["steps"] for worker in averaging["workers"]] == [60, 60]
    steps = pl.read_parquet(Path(averaging["dir"]) / "steps.parquet")
    first_losses = steps.filter((pl.col("kind") == "step") & (pl.col("step") == 0))["loss"].to_list()
    assert len(first_losses) == 2
    assert averaging["final"]["loss"] < 0.5 * min(first_losses)
    assert averaging["final"]["loss"] == pytest.approx(allreduce["final"]["loss"], rel=0.05)
    exchanges = steps.filter(pl.col("kind") == "push").group_by("task").agg((pl.col("step") + 1).sort())
    assert dict(exchanges.iter_rows()) == {task: [8, 16, 24, 32, 40, 48, 56] for task in ("w0", "w1")}


def test_an_evaluation_at_the_last_update_is_of_the_stored_mean(installed: Path, tmp_path: Path) -> None:
    run = ("--engine", "echo", "--hosts", "plain", "--layout", "w w", "--strategy", "periodic-averaging")
    (evaluated,) = results(installed, tmp_path, *run, "--eval-every", "60")
    (plain,) = results(installed, tmp_path, *run)
    assert evaluated["final"] == plain["final"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("logreg", "--engine", "torch", "--strategy", "periodic-averaging"), "engine torch has no strategy periodic"),
        (("logreg", "--engine", "echo", "--strategy", "ps-sync"), "engine echo has no strategy ps-sync"),
        (("lenet", "--engine", "echo"), "lenet does not run on engine echo: use tensorflow, torch"),
        (("matmul", "--engine", "echo"), "does not run on engine echo"),
        (("logreg", "--hosts", "plain:x"), "hosts plain takes no argument"),
        (("logreg", "--hosts", "plain", "--cpus", "0.5"), "--cpus is not supported on hosts plain: use --hosts netns"),
    ],
)
def test_what_the_package_does_not_support_is_refused(installed: Path, arguments: tuple[str, ...], says: str) -> None:
    refused = paceline(installed, "run", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert says in refused.stderr


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Packages whose registrations cannot be used."""
    for name, group, registration in (
        ("rusty", "paceline.engines", "rusty = rusty_engine:DESCRIPTOR"),
        ("foggy", "paceline.hosts", "foggy = os:path"),
        ("greedy", "paceline.engines", "torch = json:loads"),
        ("shifty", "paceline.strategies", "shifty = paceline.strategies.single:DESCRIPTOR"),
    ):
        metadata = tmp_path / "packages" / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{registration}\n")
    return tmp_path / "packages"


def test_doctor_reports_broken_packages_in_a_line_each(broken: Path) -> None:
    listed = paceline(broken, "doctor")
    assert listed.returncode == 0
    lines = [line for line in listed.stdout.splitlines() if "not used, from package" in line]
    assert len(lines) == 4
    for name, says in (
        ("engine rusty", "from package rusty: ModuleNotFoundError: No module named 'rusty_engine'"),
        ("engine torch", "from package greedy: ValueError: the name 'torch' is already taken by another package"),
        ("strategy shifty", "DESCRIPTOR calls itself 'single', and must be registered under that name"),
        ("hosts foggy", "from package foggy: TypeError: os:path is a module, not a HostKind"),
    ):
        assert any(name in line and says in line for line in lines), lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--engine", "rusty"), "engine rusty cannot be loaded"),
        (("--hosts", "foggy"), "hosts foggy cannot be loaded"),
        (("--strategy", "shifty"), "strategy shifty cannot be loaded"),
    ],
)
def test_a_broken_package_is_refused_only_if_it_is_asked_for(
    broken: Path, arguments: tuple[str, ...], says: str
) -> None:
    refused = paceline(broken, "run", "logreg", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert says in refused.stderr
    assert paceline(broken, "run", "logreg", "--dry-run").returncode == 0
