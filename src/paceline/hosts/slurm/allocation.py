"""The allocation of a run: the one in which paceline runs, or one that is made and given back at the end of the run."""

import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from paceline.errors import HostError
from paceline.hosts.slurm import allocator
from paceline.hosts.slurm.commands import ask, expand_nodes, find, job_state, last_line, without_job_variables
from paceline.hosts.slurm.options import SlurmOptions

_END_S = 60.0
_PENDING_S = 2.0
"""How long an allocation may take before the user is told what it waits for."""
_log = logging.getLogger(__name__)


class Allocation(msgspec.Struct, frozen=True):
    job: str
    nodes: tuple[str, ...]


def surrounding_allocation() -> Allocation | None:
    """The allocation in which this process runs; None if it runs in none."""
    job, nodelist = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NODELIST")
    return Allocation(job, tuple(expand_nodes(nodelist))) if job and nodelist else None


@contextmanager
def new_allocation(token: str, hosts: int, options: SlurmOptions) -> Iterator[Allocation]:
    """Make an allocation of `hosts` nodes. It is given back at the end of the block or of this process."""
    name = f"paceline-{token}-{os.getpid()}"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", allocator.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C and a closed terminal must not end it.
    )
    job = None
    try:
        request = allocator.AllocationRequest(salloc_argv(name, hosts, options), find("scancel"), name)
        job = _wait_for_job(_AllocatorPipe(process, request), options)
        nodes = expand_nodes(ask("squeue", "--noheader", f"--jobs={job}", "--format=%N").strip())
        if len(nodes) < hosts:
            raise HostError(f"Slurm gave job {job} {len(nodes)} nodes instead of {hosts}: was it cancelled?")
        yield Allocation(job, tuple(nodes))
    finally:
        _give_back(process, job)


def salloc_argv(name: str, hosts: int, options: SlurmOptions) -> list[str]:
    """The command that makes the allocation and ends as soon as Slurm has granted it."""
    nodes = [f"--nodelist={','.join(expand_nodes(options.nodelist)[:hosts])}"] if options.nodelist else []
    fixed = ["--no-shell", f"--job-name={name}", f"--nodes={hosts}", "--ntasks-per-node=1"]
    return without_job_variables([find("salloc"), *fixed, *options.flags(), *nodes])


class _AllocatorPipe:
    """Asks the allocator process and reads its replies."""

    def __init__(self, process: "subprocess.Popen[bytes]", request: allocator.AllocationRequest) -> None:
        assert process.stdin
        assert process.stdout
        self._process, self._output, self._buffer = process, process.stdout, b""
        with suppress(BrokenPipeError):  # If it ended at once, its missing reply is reported below.
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            process.stdin.flush()

    def next(self, timeout_s: float) -> allocator.AllocatorReply | None:
        """The next reply; None if there is none in time."""
        while b"\n" not in self._buffer:
            if not select.select([self._output], [], [], max(0.0, timeout_s))[0]:
                return None
            data = os.read(self._output.fileno(), 4096)
            if not data:
                raise HostError(f"no allocation was made: the allocator process ended with {self._process.wait()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return msgspec.json.decode(line, type=allocator.AllocatorReply)


def _wait_for_job(pipe: _AllocatorPipe, options: SlurmOptions) -> str:
    """The job, as soon as Slurm has granted it; HostError if it refuses it or does not grant it in time."""
    said: list[str] = []
    job, told = None, False
    started_s = time.monotonic()
    while True:
        waited_s = time.monotonic() - started_s
        reply = pipe.next((options.wait_s if told else _PENDING_S) - waited_s)
        if reply is None and told:
            raise HostError(_too_late(job, options))
        if reply is None:
            told = True
            _log.warning(
                "waiting for an allocation of Slurm%s, for at most %d min; to wait longer: --hosts slurm:wait=60",
                _reason_to_wait(job),
                options.wait_s / 60,
            )
            continue
        job = reply.job or job
        said += [reply.line] if reply.line else []
        if reply.code == 0 and job:
            return job
        if reply.code is not None:
            raise HostError(_refusal(said, options))


def _too_late(job: str | None, options: SlurmOptions) -> str:
    return (
        f"Slurm made no allocation within {options.wait_s / 60:.0f} min{_reason_to_wait(job)}: ask for less, choose "
        "another partition, or wait longer with --hosts slurm:wait=60 (minutes)"
    )


def _reason_to_wait(job: str | None) -> str:
    """What a pending job waits for, in brackets."""
    with suppress(HostError):
        state = job_state(job) if job else None
        if state:
            return f" (job {job} is {state[0].lower()}: {state[1]})"
    return ""


def _refusal(said: list[str], options: SlurmOptions) -> str:
    errors = [line for line in said if "error:" in line] or said
    asked = " ".join(options.flags())
    return f"Slurm makes no allocation with {asked}: {last_line(errors[-1] if errors else '')}"


def _give_back(process: "subprocess.Popen[bytes]", job: str | None) -> None:
    """Let the allocator cancel the job; cancel it here only if it fails."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code and job:
        with suppress(HostError):
            ask("scancel", "--quiet", job)
