"""Which pods `--hosts k8s:SELECTOR` uses, and what it says about those that it cannot use."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.k8s.hosts import K8sHosts
from paceline.hosts.k8s.pods import usable_pods
from paceline.hosts.k8s.selection import OPTIONS, read_selection
from support.fake_kubectl import pod, write_kubectl

SELECTION = read_selection("app=paceline")


def listing(*pods: dict[str, Any]) -> bytes:
    return json.dumps({"items": pods}).encode()


def hosts(count: int) -> list[HostRequest]:
    return [HostRequest(name=f"h{number}") for number in range(1, count + 1)]


def test_everything_that_is_no_option_is_part_of_the_selector() -> None:
    chosen = read_selection(
        "app=paceline, namespace=ml,tier in (a,b),!canary,container=c,zone!=x,trusted=yes,python=/p"
    )
    assert chosen.selector == "app=paceline,tier in (a,b),!canary,zone!=x"
    assert (chosen.namespace, chosen.container, chosen.trusted, chosen.python) == ("ml", "c", True, "/p")


_REQUIREMENT = st.from_regex(r"[a-z]{1,4}(=|!=|==)[a-z]{1,4}", fullmatch=True).filter(
    lambda text: text.split("=")[0].rstrip("!") not in OPTIONS
)


@given(st.lists(_REQUIREMENT, min_size=1, max_size=4), st.sampled_from(["ml", None]))
def test_selector_is_passed_on_as_written(requirements: list[str], namespace: str | None) -> None:
    parts = [*requirements[:1], *([f"namespace={namespace}"] if namespace else []), *requirements[1:]]
    chosen = read_selection(",".join(parts))
    assert (chosen.selector, chosen.namespace) == (",".join(requirements), namespace)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (None, "needs a label selector"),
        ("namespace=ml", "needs a label selector"),
        ("app=a,namespace=", "namespace has no value"),
        ("app=a,python=x,python=y", "python is given twice"),
        ("app=a,trusted=1", "trusted is '1'"),
    ],
)
def test_arguments_that_are_not_understood_are_refused(argument: str | None, said: str) -> None:
    with pytest.raises(HostError) as raised:
        read_selection(argument)
    assert said in str(raised.value)


def test_pods_are_taken_in_the_order_of_their_numbers() -> None:
    found = usable_pods(listing(*(pod(f"paceline-{n}", f"10.0.0.{n}") for n in (10, 2, 1))), SELECTION)
    assert [(one.name, one.address) for one in found] == [
        ("paceline-1", "10.0.0.1"),
        ("paceline-2", "10.0.0.2"),
        ("paceline-10", "10.0.0.10"),
    ]
    assert {one.container for one in found} == {"paceline"}


def test_the_container_can_be_chosen() -> None:
    annotated = pod("a")
    annotated["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "sidecar"}
    assert usable_pods(listing(annotated), SELECTION)[0].container == "sidecar"
    with pytest.raises(HostError, match="pod a has no container 'x': choose from paceline, sidecar"):
        usable_pods(listing(annotated), read_selection("app=paceline,container=x"))


WAITING: dict[str, Any] = {
    "containerStatuses": [{"name": "paceline", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
}


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([], "no pod matches 'app=paceline'"),
        ([pod("a", phase="Pending", **WAITING)], "no pod of 'app=paceline' is ready: a is Pending (ImagePullBackOff)"),
        (
            [pod("a", conditions=[{"type": "Ready", "status": "False", "message": "probe failed"}])],
            "a is not ready (probe failed)",
        ),
        ([pod("a", "")], "a has no address yet"),
        ([pod("a", phase="Failed", reason="Evicted")], "a is Failed (Evicted)"),
    ],
)
def test_pods_that_cannot_be_used_are_named_with_the_reason(pods: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(HostError) as raised:
        usable_pods(listing(*pods), SELECTION)
    assert said in str(raised.value)


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b'{"items":[{}]}', b'{"items":3}', b"[]"]))
def test_any_output_of_kubectl_gives_one_line(output: bytes) -> None:
    with pytest.raises(HostError):
        usable_pods(output, SELECTION)


def test_too_few_pods_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_kubectl(tmp_path, [pod("a"), pod("b", phase="Pending")], {})
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    provider = K8sHosts("app=paceline,namespace=ml,context=lab")
    assert provider.machines() == ["a"]
    with pytest.raises(HostError, match=r"has 2 hosts, but 'app=paceline' matches 1 pods that are ready \(and b is"):
        provider.check(hosts(2))
    assert log.read_text().startswith("--context=lab --namespace=ml get pods --selector=app=paceline --output=json")


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ('Error from server (Forbidden): pods is forbidden: User "x" cannot list', "kubectl may not list pods"),
        ("The connection to the server localhost:8080 was refused", "kubectl cannot list pods: The connection"),
    ],
)
def test_errors_of_kubectl_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, said: str
) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho >&2\necho '{stderr}' >&2\nexit 1\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(HostError) as raised:
        K8sHosts("app=paceline").check(hosts(1))
    assert said in str(raised.value)


def test_missing_kubectl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="needs the command 'kubectl'"):
        K8sHosts("app=paceline").machines()
