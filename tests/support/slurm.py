"""A real Slurm cluster on test machines: slurmctld on the last machine, slurmd on all others, MUNGE on all.

`srun`, `salloc`, `sinfo` and `scancel` work in the test process with the environment of `SlurmCluster.environment`.
Nothing is configured in /etc: the configuration, the MUNGE key and socket are in the folder of the cluster.

What is true of Slurm 22.05 here, measured on two busy cores:

- The cluster takes 1.5 s to make. Processes are tracked by their parents (proctrack/linuxproc), not by cgroups.
- `srun --unbuffered` passes on a single byte in either direction at once: 0.2 ms there and back if a core is free, 1 to
  15 ms if other processes want it. Without `--unbuffered`, srun holds back what a task writes until the line ends, so
  messages that are not lines never arrive.
- Bytes arrive unchanged, and the end of stdin arrives. stdout carries 3 to 5 MB/s, stdin 7 to 9 MB/s.
- If srun gets SIGTERM, its step is killed at once; after SIGKILL of srun, within 3 s. The task sees no end of its stdin
  before that. The allocation of `salloc --no-shell` stays until `scancel`.
"""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from support.machines import Cluster, make_machines, wait_for

_STATE = "/run/slurm"
_TIMEOUT_S = 60.0


class SlurmCluster:
    """Machines that run jobs of Slurm, and the way to reach it from the test process."""

    def __init__(self, cluster: Cluster, configuration: Path) -> None:
        self.cluster = cluster
        self.head = cluster.machines[-1]
        """The machine of slurmctld, which runs no jobs."""
        self.nodes = cluster.machines[:-1]
        """The machines that run jobs: node1, node2 …"""
        self.configuration = configuration

    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands reach this cluster."""
        return {**self.cluster.environment(), "SLURM_CONF": str(self.configuration)}

    def run(self, *command: str, check: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm in the test process, such as `srun`, to its end."""
        settings = {"capture_output": True, "text": True, "timeout": _TIMEOUT_S, "env": self.environment(), **options}
        if "input" not in options:
            settings["stdin"] = subprocess.DEVNULL
        return subprocess.run(command, check=check, **settings)

    def popen(self, *command: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start a command of Slurm in the test process, with pipes for stdin and stdout."""
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment(), **options
        )

    def allocate(self, nodes: int = 2) -> str:
        """Make an allocation without a shell, as `salloc --no-shell` does; returns its job id."""
        granted = self.run("salloc", "--no-shell", f"--nodes={nodes}", "--overcommit").stderr
        return granted.split("job allocation ")[1].split()[0]

    def jobs(self) -> list[str]:
        """The job ids that Slurm has not finished with."""
        return self.run("squeue", "--noheader", "--format=%i").stdout.split()

    def reset(self) -> None:
        """Undo all faults, cancel all jobs, remove all files of tests, and wait until all nodes are idle."""
        for machine in self.cluster:
            assert machine.alive, f"{machine.name} has crashed"
            machine.thaw()
            machine.restore_link()
        self.run("scancel", "--user=root", check=False)
        wait_for(lambda: not self.jobs(), "all jobs of Slurm end")
        self.cluster.reset()
        _wait_until_idle(self)


@contextmanager
def make_slurm(nodes: int = 2) -> Iterator[SlurmCluster]:
    """A Slurm cluster with `nodes` machines for jobs, all idle, until the end of the block or of this process."""
    with make_machines(nodes + 1) as cluster:
        folder = cluster.folder / "slurm"
        slurm = SlurmCluster(cluster, folder / "slurm.conf")
        files = {
            "munge.key": secrets.token_bytes(128),
            "slurm.conf": _configuration(slurm, folder).encode(),
        }
        _write(folder, files)
        with (folder / "munged.out").open("w") as log:
            foreground = ["setpriv", "--pdeathsig", "KILL", *_munged(folder), "--foreground"]
            munged = subprocess.Popen(foreground, stdout=log, stderr=log)
        try:
            for machine in cluster:
                _write(machine.outside(folder), files)
                machine.outside(_STATE).mkdir()
                machine.run(_munged(folder))
                daemon = "slurmctld" if machine is slurm.head else "slurmd"
                machine.run([f"/usr/sbin/{daemon}", "-f", slurm.configuration])
            _wait_until_idle(slurm)
            for machine in cluster:
                machine.keep_what_is_there()
            yield slurm
        finally:
            munged.kill()
            munged.wait()


@cache
def reason_without_slurm() -> str | None:
    """Why Slurm cannot be used here; None if it can. Installs it on Debian if it is missing."""
    script = Path(__file__).with_name("install_slurm.sh")
    installed = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    if installed.returncode:
        return f"Slurm cannot be installed: {(installed.stderr.strip() or 'unknown').splitlines()[-1]}"
    return None


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, mode=0o755)
    for name, content in files.items():
        (folder / name).touch(0o600)
        (folder / name).write_bytes(content)


def _munged(folder: Path) -> list[str]:
    options = {
        "socket": "munge.socket",
        "key-file": "munge.key",
        "pid-file": "munged.pid",
        "log-file": "munged.log",
        "seed-file": "munged.seed",
    }
    # Forced, because munged wants a socket that all users can reach, and this folder is only for root.
    return ["/usr/sbin/munged", "--force", *(f"--{option}={folder / name}" for option, name in options.items())]


def _configuration(slurm: SlurmCluster, folder: Path) -> str:
    """A slurm.conf without cgroups, accounting and waiting, for jobs of root."""
    lines = {
        "ClusterName": "paceline-tests",
        "SlurmctldHost": f"{slurm.head.name}({slurm.head.address})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.socket'}",
        "CredType": "cred/munge",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SchedulerType": "sched/builtin",
        "SlurmdParameters": "config_overrides",
        "MpiDefault": "none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "JobCompType": "jobcomp/none",
        "ReturnToService": "2",
        "KillWait": "5",
        "StateSaveLocation": f"{_STATE}/state",
        "SlurmdSpoolDir": f"{_STATE}/spool",
        "SlurmctldPidFile": f"{_STATE}/slurmctld.pid",
        "SlurmdPidFile": f"{_STATE}/slurmd.pid",
        "SlurmctldLogFile": f"{_STATE}/slurmctld.log",
        "SlurmdLogFile": f"{_STATE}/slurmd.log",
    }
    nodes = [f"NodeName={node.name} NodeAddr={node.address} CPUs=16 State=UNKNOWN" for node in slurm.nodes]
    partition = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=YES MaxTime=INFINITE State=UP"
    return "\n".join([*(f"{name}={value}" for name, value in lines.items()), *nodes, partition, ""])


def _wait_until_idle(slurm: SlurmCluster) -> None:
    def idle() -> bool:
        listed = slurm.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).stdout.split()
        return listed == ["idle"] * len(slurm.nodes)

    wait_for(idle, "all nodes of Slurm are idle", _TIMEOUT_S)
