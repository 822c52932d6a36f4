"""The commands of Slurm: finds them, asks them, and makes the command lines of steps."""

import os
import re
import subprocess
from collections.abc import Sequence
from shutil import which

from paceline.errors import HostError

_TIMEOUT_S = 60.0
_END_S = 10.0
_CONNECTION_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
"""Environment variables that say which cluster to talk to, unlike all others that begin with SLURM_."""
_LABEL = re.compile(r"^(salloc|srun|sinfo|squeue|scontrol|scancel|slurm_load_\w+):?\s+(error:\s*)?")


def find(name: str) -> str:
    """The path of a command of Slurm."""
    found = which(name)
    if not found:
        raise HostError(
            f"--hosts slurm needs the command '{name}' of Slurm: run paceline on a login node or in a job of the "
            "cluster, or use --hosts ssh:HOST,…"
        )
    return found


def ask(name: str, *arguments: str) -> str:
    """What a command of Slurm prints; HostError, in one line, if it fails or does not answer."""
    try:
        answer = subprocess.run(
            [find(name), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"Slurm did not answer within {_TIMEOUT_S:.0f} s: try `{name}`") from None
    if answer.returncode:
        raise HostError(f"Slurm refuses `{' '.join([name, *arguments])}`: {last_line(answer.stderr)}")
    return answer.stdout


def last_line(text: str) -> str:
    """The last line that a command of Slurm wrote to stderr, without the name of the command."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _LABEL.sub("", lines[-1]) if lines else "it said nothing"


def expand_nodes(nodelist: str) -> list[str]:
    """The names of the nodes in a list as Slurm writes it: node[1-2] is node1 and node2."""
    return ask("scontrol", "show", "hostnames", nodelist).split()


def node_field(node: str, name: str) -> str | None:
    """A field of what Slurm knows about a node; None if it has none."""
    known = ask("scontrol", "show", "node", node, "--oneliner")
    match = re.search(rf"(?:^|\s){name}=(\S+)", known)
    return match[1] if match else None


def job_state(job: str) -> tuple[str, str] | None:
    """The state of a job and what it waits for, e.g. PENDING and Resources; None if Slurm does not have it any more."""
    try:
        words = ask("squeue", "--noheader", f"--jobs={job}", "--format=%T %r").split(maxsplit=1)
    except HostError as error:
        if "Invalid job id" in str(error):
            return None
        raise
    return (words[0], words[1].strip()) if len(words) == 2 else None


def without_job_variables(argv: Sequence[str]) -> list[str]:
    """The command in an environment without the variables of a job, which srun and salloc read as options."""
    names = [name for name in os.environ if name.startswith("SLURM_") and name not in _CONNECTION_VARIABLES]
    return ["env", *(word for name in names for word in ("-u", name)), *argv] if names else list(argv)


def step_argv(flags: Sequence[str], script: str) -> list[str]:
    """The command that runs a script of the POSIX shell once on one node, with stdin and stdout passed on unchanged."""
    fixed = [
        "--nodes=1",
        "--ntasks=1",
        "--unbuffered",  # Otherwise srun holds back what is not a whole line.
        "--export=ALL",
        "--mpi=none",
        "--cpu-bind=none",  # The agent and its tasks share all cores of the allocation.
    ]
    return without_job_variables([find("srun"), *fixed, *flags, "sh", "-c", script])


def in_job(job: str, node: str) -> list[str]:
    """The options of srun for a step on a node of an allocation, beside other steps that may use the same cores."""
    return [f"--jobid={job}", f"--nodelist={node}", "--overlap"]


def run_step(argv: Sequence[str], *, stdin: bytes, timeout_s: float) -> "subprocess.CompletedProcess[bytes] | None":
    """Run a step to its end; None if it did not end in time. srun ends its step, and its job, if it is terminated."""
    process = subprocess.Popen(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        output, errors = process.communicate(stdin, timeout=timeout_s)
    except BaseException as error:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)
