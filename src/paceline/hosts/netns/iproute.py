"""Runs `ip` and `tc` with many commands per process, and reports errors as one line."""

import os
import shutil
import subprocess
from collections.abc import Sequence

NAMESPACES = "/var/run/netns"
"""Where `ip netns` keeps its names."""
_TIMEOUT_S = 10.0


class CommandError(Exception):
    """A command of iproute2 failed; the text is one line."""


def find(name: str) -> str | None:
    """The path of a system command, also if PATH lacks /sbin and /usr/sbin."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def batch(name: str, commands: Sequence[str], *, namespace: str | None = None, force: bool = False) -> None:
    """Run the commands in order; with `force`, continue after a command that fails."""
    argv = [find(name) or name]
    argv += ["-netns", namespace] if namespace else []
    argv += ["-force"] if force else []
    try:
        done = subprocess.run(
            [*argv, "-batch", "-"],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{name}: {error}") from None
    if done.returncode:
        complaint = " ".join(line.strip() for line in done.stderr.splitlines())
        raise CommandError(f"{name}: {complaint or f'ended with code {done.returncode}'}")
