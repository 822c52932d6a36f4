"""The metrics server listens only on the loopback address, and limits requests and connections."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest

from fuzz.mutations import mutants
from metrics.scrape import scrape
from paceline.cli.main import run_command
from paceline.errors import MetricsError
from paceline.metrics.serve import _MAX_CONNECTIONS, serving
from paceline.metrics.sweep_state import SweepState


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_only_the_loopback_address_listens() -> None:
    with serving(SweepState(), 0) as url:
        listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert [address.ip for address in listening if address.port == _port(url)] == ["127.0.0.1"]
        assert "paceline_info" in scrape(url)
    with pytest.raises(URLError):
        urlopen(url, timeout=10)


def test_port_can_be_reused_immediately() -> None:
    with serving(SweepState(), 0) as first:
        scrape(first)
    with serving(SweepState(), _port(first)) as second:
        assert second == first
        scrape(second)


@pytest.mark.parametrize("port", [-1, 65_536, 10**9])
def test_number_that_is_not_a_port_is_refused(port: int) -> None:
    with (
        pytest.raises(MetricsError, match=f"{port} is not a port: choose one from 1 to 65535"),
        serving(SweepState(), port),
    ):
        pass


def test_invalid_port_is_refused_in_one_line_with_exit_code_2(
    used_port: int, tmp_path: object, capfd: pytest.CaptureFixture[str]
) -> None:
    for port, message in ((used_port, "is in use"), (70_000, "is not a port"), ("x", "Invalid value")):
        assert run_command(["run", "logreg", "--runs", f"{tmp_path}/runs", "--metrics-port", str(port)]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert re.fullmatch(rf"paceline: [^\n]*{message}[^\n]*\n", err), err


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].removesuffix("/metrics"))


def _send(url: str, request: bytes, timeout_s: float = 20) -> bytes:
    """The response, read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", _port(url)), timeout=timeout_s) as raw:
        raw.sendall(request)
        return b"".join(iter(lambda: raw.recv(65_536), b""))


def _get(path: str = "/metrics", host: str = "127.0.0.1", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()


def test_request_with_a_foreign_host_name_is_refused() -> None:
    with serving(SweepState(), 0) as url:
        port = _port(url)
        for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "localhost:9"):
            assert b" 200 " in _send(url, _get(host=host)).splitlines()[0]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            "",
            "[::",
            "localhost@evil.example",
        ):
            response = _send(url, _get(host=host))
            assert b" 421 " in response.splitlines()[0]
            assert b"paceline_info" not in response


def test_only_get_and_head_of_the_metrics_path_are_served() -> None:
    with serving(SweepState(), 0) as url:
        for path in ("/", "/../../etc/passwd", "/metrics/../x", "//metrics/x", "/metrics%00", "http://evil.example/x"):
            assert b" 404 " in _send(url, _get(path)).splitlines()[0]
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X" * 100):
            assert b" 501 " in _send(url, _get(method=method)).splitlines()[0]
        headers, _, body = _send(url, _get(method="HEAD")).partition(b"\r\n\r\n")
        assert b" 200 " in headers.splitlines()[0]
        assert body == b""
        assert b" 200 " in _send(url, _get("/metrics?name=x")).splitlines()[0]


def test_idle_connections_are_limited_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.metrics.serve._REQUEST_TIMEOUT_S", 2.0)
    with serving(SweepState(), 0) as url, ExitStack() as stack:
        before = threading.active_count()
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", _port(url)), 20))
            for _ in range(3 * _MAX_CONNECTIONS)
        ]
        for connection in idle:
            with suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.0\r\nX-Never: ")
        # Each accepted connection has a thread and a timer.
        assert threading.active_count() - before <= 2 * _MAX_CONNECTIONS
        for connection in idle:
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        assert "paceline_info" in scrape(url)


def test_malformed_request_gets_an_error_or_is_closed(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(SweepState(), 0) as url:
        for data in mutants([_get(), _get(host="evil.example")], 200):
            with suppress(ConnectionResetError):
                _send(url, data + b"\r\n\r\n")
        assert "paceline_info" in scrape(url)
    assert capfd.readouterr().err == ""
