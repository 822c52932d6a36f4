"""Tasks listen only on the ports that their host allows."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import pipeline
from paceline.control.run_controller import StateListener
from paceline.control.run_state import RunState
from paceline.errors import RunError, SpecError
from paceline.hosts.base import Host, HostRequest
from paceline.hosts.local.hosts import LocalHost, LocalHosts
from paceline.plan.place import RunPlan
from paceline.ports import PortRange, bind_free_port, listening_socket, reserve_port
from paceline.spec.load import experiment
from paceline.store.result import Result

_ADDRESS = "127.0.0.1"


@given(st.integers(1, 65_535), st.integers(1, 65_535))
def test_range_is_written_as_it_is_read(one: int, other: int) -> None:
    ports = PortRange(min(one, other), max(one, other))
    assert PortRange.parse(str(ports)) == ports
    assert PortRange.parse(f" {ports.first}-{ports.last} ") == ports


@given(st.text(max_size=12))
def test_any_text_is_a_range_or_refused_in_one_line(text: str) -> None:
    try:
        ports = PortRange.parse(text)
    except SpecError as error:
        assert "must be one range from 1 to 65535, e.g. 40000-40100" in str(error)
    else:
        assert 1 <= ports.first <= ports.last <= 65_535


def _free_range(size: int) -> PortRange:
    """Neighbouring ports that nothing uses now."""
    for first in range(41_000, 60_000, size):
        try:
            with ExitStack() as stack:
                for port in range(first, first + size):
                    stack.enter_context(listening_socket(_ADDRESS, PortRange(port, port)))
        except RunError:
            continue
        return PortRange(first, first + size - 1)
    raise AssertionError("no free ports")


@pytest.mark.parametrize("opened", [listening_socket, reserve_port])
def test_each_port_of_a_range_is_used_once_and_then_the_range_is_exhausted(opened: Any) -> None:
    ports = _free_range(3)
    with ExitStack() as stack:
        listeners = [stack.enter_context(opened(_ADDRESS, ports)) for _ in range(3)]
        assert {one.getsockname()[1] for one in listeners} == {ports.first, ports.first + 1, ports.last}
        with pytest.raises(RunError) as refusal:
            opened(_ADDRESS, ports)
    assert str(refusal.value) == (
        f"no free port on {_ADDRESS}: the ports {ports} are in use; end the processes that listen there, or allow more"
    )


def test_error_other_than_a_port_in_use_is_reported_as_it_is() -> None:
    def bind(_port: int) -> None:
        raise OSError(99, os.strerror(99))

    with pytest.raises(RunError, match=r"^cannot listen at 10.9.9.9:7: Cannot assign requested address$"):
        bind_free_port("10.9.9.9", PortRange(7, 7), bind)


def listening_ports(monkeypatch: pytest.MonkeyPatch, runs: Path, ports: PortRange, **fields: Any) -> set[int]:
    """The ports on which the tasks of a run on local hosts with restricted ports listen while they train."""

    @contextmanager
    def open_hosts(_self: LocalHosts, _token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        yield [LocalHost(request.name, ports=ports) for request in requests]

    monkeypatch.setattr(LocalHosts, "open", open_hosts)
    found: set[int] = set()

    def look(state: RunState) -> None:
        if state.stage == "training":
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    connections = process.net_connections("tcp")
                    found.update(one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN)

    @contextmanager
    def view(_plan: RunPlan, _number: int, _count: int) -> Iterator[StateListener]:
        yield look

    spec = experiment({"workload": "logreg", "stop": "seconds=2", "runs": str(runs), **fields})
    results: list[Result] = pipeline.run(spec, view, lambda *_: None)
    assert [result.status for result in results] == ["ok"], results[0].reason
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": "ps-async", "layout": "pw pw", "transport": "tcp"},
        pytest.param(
            {"engine": "tensorflow", "strategy": "ps-sync", "layout": "pw w"}, marks=pytest.mark.slow, id="tensorflow"
        ),
        pytest.param(
            {"engine": "tensorflow", "strategy": "allreduce", "layout": "w w"},
            marks=pytest.mark.slow,
            id="tensorflow-allreduce",
        ),
    ],
)
def test_tasks_listen_only_on_the_ports_of_their_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    ports = _free_range(4)
    found = listening_ports(monkeypatch, tmp_path, ports, **fields)
    assert found
    assert all(ports.first <= port <= ports.last for port in found)


@pytest.mark.slow
def test_gloo_listens_on_a_port_that_the_system_chooses_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, gloo keeps to the ports of its host: remove `system_ports` from the descriptor of torch."""
    ports = _free_range(4)
    found = listening_ports(monkeypatch, tmp_path, ports, strategy="allreduce", layout="w w")
    assert {port for port in found if ports.first <= port <= ports.last}
    assert {port for port in found if not ports.first <= port <= ports.last}
