"""Hosts that are pods of a Kubernetes cluster: each agent is started by kubectl exec and speaks through it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec

from paceline.errors import HostError, RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.hosts.child_agent import start_agent
from paceline.hosts.k8s.kubectl import exec_argv, list_pods
from paceline.hosts.k8s.pods import Pod, unusable_pods, usable_pods
from paceline.hosts.k8s.selection import PodSelection, read_selection
from paceline.hosts.remote_python import agent_script
from paceline.ports import PortRange


class K8sHost(msgspec.Struct):
    name: str
    address: str
    pod: Pod
    selection: PodSelection
    ports: PortRange | None = None

    def start_agent(self, log: Path) -> AgentPipes:
        script = agent_script(self.name, self.selection.python, self.selection.scratch)
        return start_agent(exec_argv(self.selection, self.pod, script), log, None)

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a pod: its link and its cores cannot be changed from here")


class K8sShell:
    """Implements prepare.Shell."""

    def __init__(self, selection: PodSelection, pod: Pod) -> None:
        self._selection, self._pod, self.label = selection, pod, pod.name

    def run(self, script: str, *, stdin: bytes, timeout_s: float) -> "subprocess.CompletedProcess[bytes]":
        argv = exec_argv(self._selection, self._pod, script)
        try:
            return subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s, start_new_session=True)
        except subprocess.TimeoutExpired:
            raise HostError(
                f"{self.label} did not answer within {timeout_s:.0f} s: try `kubectl exec {self.label} -- true`"
            ) from None


class K8sHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        self._selection = read_selection(argument)

    def machines(self) -> list[str]:
        return [pod.name for pod in self._pods]

    def trusted_network(self) -> bool:
        return self._selection.trusted

    def shells(self) -> list[K8sShell]:
        if self._selection.python:
            raise HostError(
                "--hosts k8s sets python, but `prepare` makes an environment of its own: remove python, or install "
                "Paceline in the image of the pods"
            )
        return [K8sShell(self._selection, pod) for pod in self._pods]

    def check(self, requests: Sequence[HostRequest]) -> None:
        if len(requests) > len(self._pods):
            others = unusable_pods(self._listing)
            unusable = f" (and {'; '.join(others)})" if others else ""
            raise HostError(
                f"the layout has {len(requests)} hosts, but '{self._selection.selector}' matches {len(self._pods)} "
                f"pods that are ready{unusable}: start more pods, or use a layout with fewer hosts"
            )

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        self.check(requests)  # Pods may have gone since the run was planned.
        yield [
            K8sHost(request.name, pod.address, pod, self._selection)
            for request, pod in zip(requests, self._pods, strict=False)
        ]

    @cached_property
    def _listing(self) -> bytes:
        return list_pods(self._selection)

    @cached_property
    def _pods(self) -> list[Pod]:
        return usable_pods(self._listing, self._selection)
