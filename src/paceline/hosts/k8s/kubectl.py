"""The user's own kubectl: its configuration, credentials and context apply."""

import re
import subprocess
from shutil import which

from paceline.errors import HostError
from paceline.hosts.k8s.pods import Pod
from paceline.hosts.k8s.selection import PodSelection

_TIMEOUT_S = 60.0
_REQUEST_TIMEOUT = "30s"
_DENIED = re.compile(r"\bforbidden\b|\bunauthorized\b|must be logged in", re.IGNORECASE)


def kubectl_command() -> str:
    """The path of kubectl."""
    found = which("kubectl")
    if not found:
        raise HostError("--hosts k8s needs the command 'kubectl': install it and check `kubectl get pods`")
    return found


def kubectl_argv(selection: PodSelection, *arguments: str) -> list[str]:
    """The command for the context and namespace of the user."""
    context = [f"--context={selection.context}"] if selection.context else []
    namespace = [f"--namespace={selection.namespace}"] if selection.namespace else []
    return [kubectl_command(), *context, *namespace, *arguments]


def list_pods(selection: PodSelection) -> bytes:
    """The pods that match the selector, as JSON; HostError, in one line, if the cluster does not answer."""
    argv = kubectl_argv(
        selection,
        "get",
        "pods",
        f"--selector={selection.selector}",
        "--output=json",
        f"--request-timeout={_REQUEST_TIMEOUT}",
    )
    try:
        answer = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise HostError(f"kubectl did not answer within {_TIMEOUT_S:.0f} s: try `kubectl get pods`") from None
    if answer.returncode:
        said = error_line(answer.stderr)
        if _DENIED.search(said):
            raise HostError(
                f"kubectl may not list pods: {said}: --hosts k8s needs the rights `get` and `list` for pods and "
                "`create` for pods/exec"
            )
        raise HostError(f"kubectl cannot list pods: {said}")
    return answer.stdout


def exec_argv(selection: PodSelection, pod: Pod, script: str) -> list[str]:
    """The command that runs a script of the POSIX shell in a pod, with stdin and stdout passed on unchanged."""
    return kubectl_argv(
        selection, "exec", "--stdin", pod.name, f"--container={pod.container}", "--", "sh", "-c", script
    )


def error_line(stderr: bytes) -> str:
    """What kubectl said last."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
