"""The counters of a CPU limit, from fake hierarchies of both cgroup versions."""

from pathlib import Path

import pytest

from paceline.agent.cpu_quota import CpuQuota, QuotaPeriods

STAT = "nr_periods 120\nnr_throttled 90\nthrottled_time 5\n"


def fake(root: Path, cgroup: str, mount: str, stat: str, at: str) -> Path:
    """A /proc in which process 7 is in a cgroup, and a hierarchy in which `at` has the counters `stat`."""
    proc, groups = root / "proc", root / "groups"
    for folder in (proc / "7", proc / "self", groups / at):
        folder.mkdir(parents=True)
    (proc / "7" / "cgroup").write_text(cgroup)
    (proc / "self" / "mountinfo").write_text(mount.format(root=groups))
    (groups / at / "cpu.stat").write_text(stat)
    return proc


V1 = "30 23 0:26 / {root} rw - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "30 23 0:26 / {root} rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
INSIDE = "30 23 0:26 /docker/abc {root} ro - cgroup cgroup rw,cpu\n"


@pytest.mark.parametrize(
    ("cgroup", "mount", "at"),
    [
        ("4:cpu,cpuacct:/run/h1\n0::/other\n", V1, "run/h1"),
        ("0::/run/h1\n", V2, "run/h1"),
        ("1:cpu:/docker/abc/run\n", INSIDE, "run"),
    ],
)
def test_counters_are_found_in_every_kind_of_hierarchy(tmp_path: Path, cgroup: str, mount: str, at: str) -> None:
    quota = CpuQuota.of_process(7, fake(tmp_path, cgroup, mount, STAT, at))
    assert quota is not None
    assert quota.read() == QuotaPeriods(120, 90)
    quota.close()


@pytest.mark.parametrize("stat", ["", "usage_usec 3\nuser_usec 2\n"])
def test_a_cgroup_without_the_cpu_controller_has_no_counters(tmp_path: Path, stat: str) -> None:
    assert CpuQuota.of_process(7, fake(tmp_path, "0::/run\n", V2, stat, "run")) is None


def test_a_process_that_has_ended_has_no_counters(tmp_path: Path) -> None:
    assert CpuQuota.of_process(8, fake(tmp_path, "0::/run\n", V2, STAT, "run")) is None
