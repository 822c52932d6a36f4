"""What may follow `ray:` in --hosts, and what a user is told if the cluster cannot be used."""

import importlib.util
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import HostError
from paceline.hosts.base import HostRequest
from paceline.hosts.ray import session
from paceline.hosts.ray.address import RayAddress, parse_address
from paceline.hosts.ray.hosts import RayHosts, too_few

MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.40.0
    Python: 3.10.9
This process on node 10.0.0.7 was started with:
    Ray: 2.60.0
    Python: 3.11.2
"""


@pytest.fixture(autouse=True)
def no_ray_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize(
    ("argument", "address"),
    [
        (None, RayAddress("auto")),
        ("auto", RayAddress("auto")),
        ("10.0.0.1:6379", RayAddress("10.0.0.1:6379", "10.0.0.1", 6379)),
        ("ray://head.example:10001", RayAddress("ray://head.example:10001", "head.example", 10001)),
        ("ray://head", RayAddress("ray://head:10001", "head", 10001)),
        ("[fd00::1]:6379", RayAddress("[fd00::1]:6379", "fd00::1", 6379)),
    ],
)
def test_addresses(argument: str | None, address: RayAddress) -> None:
    assert parse_address(argument) == address


def test_auto_is_the_address_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    assert parse_address("auto").text == "ray://head:10001"
    assert parse_address("other:6379").text == "other:6379"


@pytest.mark.parametrize(
    "argument", ["head", "head:", "head:0", "head:70000", "http://head:8265", "-x:1", "a b:1", "a,b"]
)
def test_what_is_no_address_is_refused_in_one_line(argument: str) -> None:
    with pytest.raises(HostError, match=r"write --hosts ray:auto|use 1 to 65535"):
        parse_address(argument)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except HostError:
        return
    assert address.text == "auto" or 1 <= address.port <= 65535


def test_without_the_package_the_user_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _name: None)
    with pytest.raises(HostError, match=r"pip install 'paceline\[ray\]'"):
        RayHosts("auto").check([HostRequest(name="h1")])


def test_address_at_which_nothing_listens_is_refused_at_once() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HostError, match=f"no Ray cluster can be reached at 127.0.0.1:{port}: Connection refused"):
        RayHosts(f"127.0.0.1:{port}").machines()


def test_different_versions_are_named() -> None:
    line = session.explain(parse_address("ray://head"), RuntimeError(MISMATCH))
    assert "has Ray 2.40.0 with Python 3.10.9, but this process has Ray 2.60.0 with Python 3.11.2: use" in line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConnectionError("Could not find any running Ray instance"), "no Ray cluster was found on this machine: start"),
        (TimeoutError(), "did not answer within 90 s"),
        (RuntimeError("something else"), "the Ray cluster cannot be used: something else"),
    ],
)
def test_other_failures_say_what_to_do(error: Exception, line: str) -> None:
    assert line in session.explain(RayAddress("auto"), error)


def test_too_few_nodes_are_listed_with_what_they_have() -> None:
    nodes = [
        {"Alive": True, "NodeManagerAddress": "10.0.0.1", "Resources": {"memory": 1.0}},
        {"Alive": True, "NodeManagerAddress": "10.0.0.2", "Resources": {"CPU": 4.0}},
        {"Alive": False, "NodeManagerAddress": "10.0.0.3", "Resources": {"CPU": 4.0}},
    ]
    line = too_few("auto", 2, nodes, {"CPU": 3.0})
    assert "it has 10.0.0.1 (0 CPUs), 10.0.0.2 (4 CPUs); 3 CPUs are free in all: add nodes" in line


def test_package_and_its_metadata_are_sent() -> None:
    package, metadata = session.own_code()
    assert package.endswith("/paceline")
    assert metadata.endswith(".dist-info")
