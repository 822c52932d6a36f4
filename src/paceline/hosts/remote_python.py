"""The shell script that runs Python on a remote machine."""

import shlex
from collections.abc import Sequence

from paceline.hosts.child_agent import agent_arguments

_PREPARED_PYTHON = '"${XDG_CACHE_HOME:-$HOME/.cache}/paceline/venv/bin/python"'
"""Where `paceline hosts prepare` puts Python, as the remote shell writes it."""


def python_script(python: str | None, arguments: Sequence[str]) -> str:
    """The script for the POSIX shell that runs Python, isolated from the files in the home directory.

    `python` is the user's choice; None: the one of `paceline hosts prepare`, or python3 if there is none.
    """
    words = shlex.join(["-P", *arguments])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'P={_PREPARED_PYTHON}; [ -x "$P" ] || P=python3; exec "$P" {words}'


def agent_script(name: str, python: str | None, scratch: str | None) -> str:
    """The script that starts the agent of the host `name`; its private directory is made below `scratch`."""
    arguments = ["-m", "paceline.agent", *agent_arguments(name, network="host")]
    return python_script(python, [*arguments, "--scratch", scratch] if scratch else arguments)
