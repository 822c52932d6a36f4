"""The pods that can be hosts, from the JSON of `kubectl get pods`."""

import re
from typing import Any

import msgspec

from paceline.errors import HostError
from paceline.hosts.k8s.selection import PodSelection

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod in which an agent can be started."""

    name: str
    address: str
    container: str


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    state: dict[str, Any] = {}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Unknown"
    pod_ip: str = msgspec.field(default="", name="podIP")
    reason: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []


class _PodJson(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _Status = _Status()


class _PodList(msgspec.Struct, frozen=True):
    items: list[_PodJson] = []


def usable_pods(listing: bytes, selection: PodSelection) -> list[Pod]:
    """The pods that are running and ready, in the order of their numbers.

    HostError if no pod matches the selector, or none of those that match can be used.
    """
    try:
        found = msgspec.json.decode(listing, type=_PodList).items
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HostError(f"kubectl printed no list of pods: {error}") from None
    if not found:
        where = f" in namespace {selection.namespace}" if selection.namespace else ""
        raise HostError(
            f"no pod matches '{selection.selector}'{where}: "
            "check `kubectl get pods --show-labels`, or give namespace=NAME"
        )
    found.sort(key=lambda pod: _natural_order(pod.metadata.name))
    usable = [_pod(pod, selection) for pod in found if not _problem(pod)]
    if not usable:
        raise HostError(f"no pod of '{selection.selector}' is ready: {'; '.join(unusable_pods(listing))}")
    return usable


def unusable_pods(listing: bytes) -> list[str]:
    """A few words for each pod that matches the selector and cannot be used, with the reason."""
    found = msgspec.json.decode(listing, type=_PodList).items
    return [f"{pod.metadata.name} {problem}" for pod in found if (problem := _problem(pod))]


def _pod(pod: _PodJson, selection: PodSelection) -> Pod:
    containers = [container.name for container in pod.spec.containers]
    container = selection.container or pod.metadata.annotations.get(_DEFAULT_CONTAINER) or next(iter(containers), "")
    if container not in containers:
        raise HostError(
            f"pod {pod.metadata.name} has no container '{container}': choose from {', '.join(containers) or 'none'}"
        )
    return Pod(name=pod.metadata.name, address=pod.status.pod_ip, container=container)


def _problem(pod: _PodJson) -> str | None:
    """Why the pod cannot be used, in a few words; None if it can."""
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    waiting = [status.state.get("waiting") for status in pod.status.container_statuses]
    reasons = [str(state.get("reason")) for state in waiting if isinstance(state, dict) and state.get("reason")]
    failed = [condition for condition in pod.status.conditions if condition.status != "True"]
    reasons += [condition.message or condition.reason for condition in failed if condition.message or condition.reason]
    detail = f" ({reasons[0]})" if reasons else f" ({pod.status.reason})" if pod.status.reason else ""
    if pod.status.phase != "Running":
        return f"is {pod.status.phase}{detail}"
    if any(condition.type == "Ready" for condition in failed):
        return f"is not ready{detail}"
    return None if pod.status.pod_ip else "has no address yet"


def _natural_order(name: str) -> list[tuple[int, str]]:
    """A key by which pod-2 comes before pod-10."""
    return [
        (int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in re.split(r"([0-9]+)", name)
    ]
