"""The process that makes an allocation with salloc, and gives it back when the controller has ended or was killed.

It reads one line of JSON from stdin, runs salloc, and writes each line of salloc, and how it ended, to stdout. When
stdin closes, for any reason, it ends salloc and cancels the job. It imports little, so that it starts fast.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import msgspec

_CANCEL_ATTEMPTS = 6
_RETRY_S = 5.0
_SALLOC_END_S = 10.0
_JOB = re.compile(r"(?:Pending job allocation|Granted job allocation|job) (\d+)")


class AllocationRequest(msgspec.Struct):
    salloc: list[str]
    scancel: str
    job_name: str


class AllocatorReply(msgspec.Struct):
    """A line that salloc wrote, or the code with which it ended."""

    line: str | None = None
    code: int | None = None
    job: str | None = None
    """The job that salloc has made, as soon as it is known."""


def job_of(line: str) -> str | None:
    """The job that a line of salloc names; None if it names none."""
    match = _JOB.search(line)
    return match[1] if match else None


def main() -> int:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # The controller's end, which closes stdin, is the only reason to give the allocation back. A handler that does
        # nothing is used because salloc would inherit that a signal is ignored.
        signal.signal(number, lambda *_: None)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # The controller ended before it sent a request.
        return 0
    request = msgspec.json.decode(line, type=AllocationRequest)
    salloc = subprocess.Popen(
        request.salloc, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    return _give_back(request, salloc, _relay(salloc))


def _relay(salloc: "subprocess.Popen[bytes]") -> str | None:
    """Pass on what salloc says until the controller has ended; returns the job, if salloc has made one."""
    assert salloc.stderr
    job, said, streams = None, b"", [0, salloc.stderr.fileno()]
    while True:
        ready, _, _ = select.select(streams, [], [])
        if 0 in ready and not os.read(0, 4096):
            # What salloc has said meanwhile may name its job.
            return job or _job_said_at_end(salloc, said)
        if salloc.stderr.fileno() in ready:
            data = os.read(salloc.stderr.fileno(), 4096)
            *lines, said = (said + data).split(b"\n")
            for text in (line.decode(errors="replace") for line in lines):
                job = job or job_of(text)
                _reply(AllocatorReply(line=text, job=job))
            if not data:
                streams.remove(salloc.stderr.fileno())
                _reply(AllocatorReply(code=salloc.wait(), job=job))


def _job_said_at_end(salloc: "subprocess.Popen[bytes]", said: bytes) -> str | None:
    assert salloc.stderr
    if salloc.poll() is None:
        salloc.terminate()
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        said += salloc.communicate(timeout=_SALLOC_END_S)[1] or b""
    return job_of(said.decode(errors="replace"))


def _give_back(request: AllocationRequest, salloc: "subprocess.Popen[bytes]", job: str | None) -> int:
    """End salloc, which revokes what is still pending, and cancel the job; 1 if that failed."""
    if salloc.poll() is None:
        salloc.terminate()
        try:
            salloc.wait(_SALLOC_END_S)
        except subprocess.TimeoutExpired:
            salloc.kill()
            salloc.wait()
    # A job that salloc has not named yet has at least the name that it was given.
    which = [job] if job else [f"--name={request.job_name}"]
    for attempt in range(_CANCEL_ATTEMPTS):
        if attempt:
            time.sleep(_RETRY_S)  # slurmctld may be restarting.
        cancelled = subprocess.run(
            [request.scancel, "--quiet", *which], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if not cancelled.returncode:
            return 0
    with suppress(OSError):
        print(f"job {which[0]} could not be cancelled: cancel it with scancel {which[0]}", file=sys.stderr, flush=True)
    return 1


def _reply(reply: AllocatorReply) -> None:
    with suppress(BrokenPipeError):  # The controller is dead, which also closes stdin.
        os.write(1, msgspec.json.encode(reply) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
