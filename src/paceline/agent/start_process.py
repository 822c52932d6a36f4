"""Starts a process of a host: forked from one that has imported what it needs, or else as a new program."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from paceline.forkserver.client import ForkedProcess, ForkServer, ForkServerLost


def start_process(
    argv: Sequence[str],
    log: BinaryIO,
    env: Mapping[str, str],
    fork_server: ForkServer | None,
    marks: Mapping[str, str],
) -> "subprocess.Popen[bytes] | ForkedProcess":
    """Start a command in a session of its own, with pipes as stdin and stdout and the log as stderr.

    `marks` are variables that are added to the environment of every process.
    """
    # A forked process keeps the environment in which its modules were imported.
    if fork_server and dict(env) == dict(os.environ) and argv[1] == "-m":
        with suppress(ForkServerLost):
            return fork_server.spawn(argv, stderr=log, variables=marks)
    return subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env={**env, **marks}, start_new_session=True
    )
