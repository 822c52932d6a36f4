"""CPU groups in both versions of cgroups, and removing them whatever state their processes are in."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.hosts.netns.cgroup import Hierarchy, cpu_hierarchy, cpu_limit, processes
from paceline.hosts.netns.teardown import teardown

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or cpu_hierarchy() is None, reason="needs root and a cpu cgroup"
)
FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.mark.parametrize(
    ("cpus", "quota_us", "period_us"),
    [(0.5, 5_000, 10_000), (2, 20_000, 10_000), (0.1, 1_000, 10_000), (0.05, 1_000, 20_000), (0.001, 1_000, 1_000_000)],
)
def test_the_period_is_short_unless_the_quota_would_be_too_short(cpus: float, quota_us: int, period_us: int) -> None:
    assert cpu_limit(cpus) == (quota_us, period_us)


def test_version_1_takes_quota_and_period_apart(tmp_path: Path) -> None:
    group = Hierarchy(tmp_path, 1).make("paceline-x-h1", 0.5)
    assert (group / "cpu.cfs_quota_us").read_text() == "5000"
    assert (group / "cpu.cfs_period_us").read_text() == "10000"


def test_a_group_without_a_limit_can_be_given_one_and_lose_it_again(tmp_path: Path) -> None:
    old, new = tmp_path / "v1", tmp_path / "v2"
    for root in (old, new):
        root.mkdir()
    (new / "cgroup.subtree_control").write_text("cpu\n")
    for hierarchy, file, unlimited, limited in (
        (Hierarchy(old, 1), "cpu.cfs_quota_us", "-1", "2000"),
        (Hierarchy(new, 2), "cpu.max", "max 10000", "2000 10000"),
    ):
        group = hierarchy.make("paceline-x-h1", None)
        assert (group / file).read_text() == unlimited
        hierarchy.set_cpus(group, 0.2)
        assert (group / file).read_text() == limited
        hierarchy.set_cpus(group, None)
        assert (group / file).read_text() == unlimited


def test_version_2_takes_both_in_one_line_once_the_root_hands_cpu_down(tmp_path: Path) -> None:
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("memory pids\n")
    group = Hierarchy(tmp_path, 2).make("paceline-x-h1", 1.5)
    assert (group / "cpu.max").read_text() == "15000 10000"
    assert control.read_text() == "+cpu"


def test_version_2_below_an_occupied_group_is_no_use(tmp_path: Path) -> None:
    (tmp_path / "cgroup.type").write_text("domain\n")
    (tmp_path / "cgroup.procs").write_text("1\n")
    (tmp_path / "cgroup.subtree_control").write_text("\n")
    assert "holds processes itself" in str(Hierarchy(tmp_path, 2).obstacle())
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    assert Hierarchy(tmp_path, 2).obstacle() is None


@pytest.fixture
def group() -> Iterator[Path]:
    hierarchy = cpu_hierarchy()
    assert hierarchy
    made = hierarchy.make(f"test-paceline-{uuid.uuid4().hex[:8]}", 0.5)
    yield made
    teardown([], [made])


@pytest.fixture
def member(group: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the group."""
    process = subprocess.Popen(["sleep", "1000"])
    (group / "cgroup.procs").write_text(str(process.pid))
    yield process
    process.kill()
    process.wait()


@pytest.mark.netns
@needs_root
def test_a_group_goes_with_its_processes(group: Path, member: subprocess.Popen[bytes]) -> None:
    assert processes(group) == [member.pid]
    swept = teardown([], [group])
    assert swept.done == [f"killed process {member.pid} (sleep)", f"removed cgroup {group.name}"]
    assert swept.failed == []
    assert member.wait() == -9
    assert teardown([], [group]) == ([], []), "and what is gone is fine"


@pytest.mark.netns
@needs_root
@pytest.mark.skipif(not (FREEZER / "cgroup.procs").exists(), reason="needs the freezer of cgroups version 1")
def test_a_frozen_process_is_thawed_to_die(group: Path, member: subprocess.Popen[bytes]) -> None:
    ice = FREEZER / group.name
    ice.mkdir()
    try:
        (ice / "cgroup.procs").write_text(str(member.pid))
        (ice / "freezer.state").write_text("FROZEN")
        assert teardown([], [group]).failed == []
        assert member.wait() == -9
    finally:
        (ice / "freezer.state").write_text("THAWED")
        teardown([], [ice])
