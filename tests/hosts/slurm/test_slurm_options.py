"""What follows `slurm:` in --hosts, and the command lines that it leads to."""

from pathlib import Path

import pytest

from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.slurm.allocation import salloc_argv
from paceline.hosts.slurm.allocator import job_of
from paceline.hosts.slurm.commands import in_job, last_line, step_argv
from paceline.hosts.slurm.hosts import SlurmHosts
from paceline.hosts.slurm.options import read_slurm_options

FAKE = """#!/bin/sh
case "$(basename $0) $*" in
  "sinfo "*) echo "cpu 2"; echo "gpu 1"; echo "cpu 1";;
  "scontrol show hostnames "*) eval last=\\${$#}; echo $last | tr , ' ';;
  "squeue "*"--jobs=7 "*) echo "RUNNING None";;
  "squeue "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;;
esac
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of Slurm that answer from a script, for a user outside of any job."""
    for name in ("srun", "salloc", "scancel", "scontrol", "sinfo", "squeue"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for variable in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(variable, raising=False)


def hosts(count: int) -> list[HostRequest]:
    return [HostRequest(name=f"h{number}") for number in range(1, count + 1)]


def test_allocations_are_of_whole_nodes_unless_cores_are_given() -> None:
    options = read_slurm_options("partition=cpu,time=1-12:00,account=me,constraint=a&b,python=/p,trusted=yes")
    assert options.flags() == ["--partition=cpu", "--time=1-12:00", "--account=me", "--constraint=a&b", "--exclusive"]
    assert (options.python, options.trusted, options.wait_s) == ("/p", True, 600)
    assert read_slurm_options("cpus=4,mem=8G,wait=60").flags() == ["--cpus-per-task=4", "--mem=8G"]
    assert read_slurm_options(None).flags() == ["--exclusive"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time=soon", "time is 'soon': write minutes"),
        ("wait=0", "wait is '0': write the minutes"),
        ("wait=²", "wait is '²': write the minutes"),
        ("trusted=maybe", "trusted is 'maybe': write trusted=yes or trusted=no"),
        ("nodes=3", "unknown option 'nodes'"),
    ],
)
def test_options_that_are_not_understood_are_refused(text: str, said: str) -> None:
    with pytest.raises(HostError) as raised:
        read_slurm_options(text)
    assert said in str(raised.value)


@pytest.mark.usefixtures("commands")
def test_salloc_gets_as_many_nodes_as_the_layout_has_hosts() -> None:
    argv = salloc_argv("paceline-x", 2, read_slurm_options("nodelist=n1,n2,n3,partition=cpu"))
    assert {"--no-shell", "--job-name=paceline-x", "--nodes=2", "--nodelist=n1,n2", "--partition=cpu"} <= set(argv)


@pytest.mark.usefixtures("commands")
def test_steps_do_not_inherit_the_options_of_the_surrounding_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "64")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    argv = step_argv(in_job("7", "n1"), "true")
    assert argv[:3] == ["env", "-u", "SLURM_NTASKS"]
    assert "SLURM_CONF" not in argv
    assert {"--jobid=7", "--nodelist=n1", "--overlap", "--unbuffered"} <= set(argv)
    assert argv[-3:] == ["sh", "-c", "true"]


@pytest.mark.usefixtures("commands")
def test_outside_of_a_job_partitions_and_their_sizes_are_checked() -> None:
    SlurmHosts("partition=cpu").check(hosts(3))
    assert SlurmHosts("nodelist=n1,n2").machines() == ["n1", "n2"]
    for argument, count, said in [
        ("partition=cpux", 1, "Slurm has no partition 'cpux': choose from cpu, gpu"),
        ("partition=gpu", 2, "the layout has 2 hosts, but partition gpu has 1 nodes"),
        (None, 4, "the largest partition of Slurm has 3 nodes"),
        ("nodelist=n1", 2, "nodelist=n1 has fewer"),
    ]:
        with pytest.raises(HostError) as raised:
            SlurmHosts(argument).check(hosts(count))
        assert said in str(raised.value)


@pytest.mark.usefixtures("commands")
def test_inside_of_a_job_its_nodes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1,n2")
    SlurmHosts().check(hosts(2))
    assert SlurmHosts().machines() == ["n1", "n2"]
    assert [shell.label for shell in SlurmHosts("nodelist=n2").shells()] == ["n2"]
    for argument, count, said in [
        (None, 3, "the layout has 3 hosts, but job 7 has 2 nodes to use"),
        ("nodelist=n9", 1, "nodelist has n9, but job 7 has n1, n2"),
        ("partition=cpu", 1, "partition cannot be changed inside of job 7"),
    ]:
        with pytest.raises(HostError) as raised:
            SlurmHosts(argument).check(hosts(count))
        assert said in str(raised.value)
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    with pytest.raises(HostError, match="SLURM_JOB_ID is 8, but that job has ended"):
        SlurmHosts().check(hosts(1))


def test_missing_commands_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="needs the command 'srun' of Slurm"):
        SlurmHosts().check(hosts(1))


def test_jobs_and_errors_are_found_in_what_slurm_says() -> None:
    assert job_of("salloc: Pending job allocation 12") == "12"
    assert job_of("salloc: job 12 queued and waiting for resources") == "12"
    assert job_of("salloc: Granted job allocation 12") == "12"
    assert job_of("salloc: error: Job submit/allocate failed: Invalid partition name specified") is None
    assert last_line("a\nsalloc: error: Invalid --time specification\n") == "Invalid --time specification"
