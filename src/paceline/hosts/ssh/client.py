"""The user's own ssh client: its configuration, keys and known hosts apply, and host keys are always verified."""

import shlex
import subprocess
from shutil import which

from paceline.errors import HostError
from paceline.hosts.ssh.inventory import Machine

_OPTIONS = (
    "-T",  # No terminal: frames must arrive as they were sent.
    "-x",
    "-o BatchMode=yes",  # Ask for no password: nobody could answer.
    "-o ConnectTimeout=10",
    "-o ServerAliveInterval=5",
    "-o ServerAliveCountMax=3",
    "-o ControlMaster=no",
    "-o ControlPath=none",  # A connection that agents shared would be one window for all, and one failure for all.
    "-o ForwardAgent=no",
    "-o ClearAllForwardings=yes",
)
EXIT_CONNECTION_FAILED = 255


def ssh_command() -> str:
    """The path of the ssh client."""
    found = which("ssh")
    if not found:
        raise HostError("--hosts ssh needs the command 'ssh': install the OpenSSH client")
    return found


def remote_argv(machine: Machine, script: str) -> list[str]:
    """The command that runs a script of the POSIX shell on a machine, whatever the user's login shell is there."""
    port = ["-p", str(machine.port)] if machine.port else []
    config = ["-F", machine.config] if machine.config else []
    options = [word for option in _OPTIONS for word in option.split()]
    return [ssh_command(), *options, *config, *port, "--", machine.ssh, f"exec sh -c {shlex.quote(script)}"]


def run_script(
    machine: Machine, script: str, *, timeout_s: float, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a script on a machine and return its output; HostError if the machine does not answer in time."""
    try:
        return subprocess.run(
            remote_argv(machine, script),
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise HostError(
            f"{machine.label} did not answer within {timeout_s:.0f} s: check `ssh {machine.label}`"
        ) from None


def error_line(machine: Machine, stderr: bytes) -> str:
    """What ssh said last, with the command by which the user can see for themselves."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    said = lines[-1] if lines else "the connection failed"
    port = f"-p {machine.port} " if machine.port else ""
    return f"cannot reach {machine.label} by ssh: {said}: try `ssh {port}{machine.ssh} true`"
