"""The process that creates the hosts of a run, and removes them when the controller has ended or was killed.

It reads one line of JSON from stdin, writes one to stdout, and waits. When stdin closes, for any reason, it removes
all processes, namespaces and cgroups of the run. It imports little, so that it starts fast.
"""

import os
import select
import signal
import sys
from contextlib import suppress

import msgspec

from paceline.hosts.base import HostRequest
from paceline.hosts.netns import cgroup, iproute, run_lock, setup
from paceline.hosts.netns.teardown import teardown


class ReaperRequest(msgspec.Struct):
    token: str
    hosts: list[HostRequest]


class ReaperReply(msgspec.Struct):
    hosts: list[setup.CreatedHost] = []
    error: str | None = None


def main() -> int:
    told_to_end = _listen_for_signals()
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # The controller ended before it sent a request.
        return 0
    request = msgspec.json.decode(line, type=ReaperRequest)
    namespaces = setup.namespaces_of(request.token, request.hosts)
    groups = setup.cgroups_of(request.token, request.hosts)
    try:
        lock = run_lock.make(request.token, namespaces, groups)
    except FileExistsError:
        _answer(
            error=f"hosts named '{request.token}' exist: if no run uses them, remove them by paceline doctor --clean"
        )
        return 0
    except OSError as error:
        _answer(error=f"cannot write to {run_lock.DIRECTORY}: {error.strerror}")
        return 0
    try:
        _answer(hosts=setup.build(request.token, request.hosts))
        _wait_for_end(told_to_end)
    except (iproute.CommandError, OSError) as error:
        _answer(error=f"the hosts cannot be made: {error}")
    failed = teardown(namespaces, [cgroup.root() / group for group in groups]).failed
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    if not failed:  # Otherwise the lock file stays, for `paceline doctor --clean`.
        lock.remove()
    return 1 if failed else 0


def _listen_for_signals() -> int:
    """A file descriptor that becomes readable on SIGTERM. SIGINT and SIGHUP are left to the controller."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return told


def _wait_for_end(told_to_end: int) -> None:
    while True:
        ready, _, _ = select.select([0, told_to_end], [], [])
        if told_to_end in ready or not os.read(0, 4096):
            return


def _answer(*, hosts: list[setup.CreatedHost] | None = None, error: str | None = None) -> None:
    with suppress(BrokenPipeError):  # The controller is dead, which also closes stdin.
        os.write(1, msgspec.json.encode(ReaperReply(hosts or [], error)) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
