"""The user's own ssh client: its configuration, keys and known hosts apply, and host keys are always verified."""

import shlex
import subprocess
from shutil import which

from paceline.errors import HostError, shorten
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
    return f"cannot reach {machine.label} by ssh: {_last_line(stderr) or 'the connection failed'}: {_try(machine)}"


def shell_error_line(machine: Machine, code: int, output: bytes) -> str:
    """Why a machine that was reached runs no command: what its shell said last, e.g. in a file of the user."""
    said = f"; it says '{_last_line(output)}'" if _last_line(output) else ""
    return f"the shell of {machine.label} ends with code {code} before it runs a command{said}: {_try(machine)}"


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return shorten(lines[-1]) if lines else ""


def _try(machine: Machine) -> str:
    port = f"-p {machine.port} " if machine.port else ""
    return f"try `ssh {port}{machine.ssh} true`"
