"""Where metrics are served: on the loopback address, at a port that is free, and nowhere else."""

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
from paceline.metrics.serve import _MOST_AT_ONCE, serving
from paceline.metrics.sweep_state import SweepState


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_only_the_loopback_address_listens() -> None:
    with serving(SweepState(), 0) as url:
        listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert [address.ip for address in listening if address.port == _port(url)] == ["127.0.0.1"]
        assert "paceline_info" in scrape(url)
    with pytest.raises(URLError):
        urlopen(url, timeout=10)


def test_the_same_port_can_be_had_again_at_once() -> None:
    with serving(SweepState(), 0) as first:
        scrape(first)
    with serving(SweepState(), _port(first)) as second:
        assert second == first
        scrape(second)


@pytest.mark.parametrize("port", [-1, 65_536, 10**9])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with (
        pytest.raises(MetricsError, match=f"{port} is no port: choose one from 1 to 65535"),
        serving(SweepState(), port),
    ):
        pass


def test_a_bad_port_is_one_line_and_exit_code_2_before_anything_starts(
    taken: int, tmp_path: object, capfd: pytest.CaptureFixture[str]
) -> None:
    for port, complaint in ((taken, "is in use"), (70_000, "is no port"), ("x", "Invalid value")):
        assert run_command(["run", "logreg", "--runs", f"{tmp_path}/runs", "--metrics-port", str(port)]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert re.fullmatch(rf"paceline: [^\n]*{complaint}[^\n]*\n", err), err


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].removesuffix("/metrics"))


def _ask(url: str, request: bytes, patience_s: float = 20) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", _port(url)), timeout=patience_s) as raw:
        raw.sendall(request)
        return b"".join(iter(lambda: raw.recv(65_536), b""))


def _get(path: str = "/metrics", host: str = "127.0.0.1", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()


def test_a_page_of_another_site_that_points_its_name_here_gets_nothing() -> None:
    with serving(SweepState(), 0) as url:
        port = _port(url)
        for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "localhost:9"):
            assert b" 200 " in _ask(url, _get(host=host)).splitlines()[0]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            "",
            "[::",
            "localhost@evil.example",
        ):
            answer = _ask(url, _get(host=host))
            assert b" 421 " in answer.splitlines()[0]
            assert b"paceline_info" not in answer


def test_only_the_one_page_is_served_and_only_to_be_read() -> None:
    with serving(SweepState(), 0) as url:
        for path in ("/", "/../../etc/passwd", "/metrics/../x", "//metrics/x", "/metrics%00", "http://evil.example/x"):
            assert b" 404 " in _ask(url, _get(path)).splitlines()[0]
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X" * 100):
            assert b" 501 " in _ask(url, _get(method=method)).splitlines()[0]
        headers, _, body = _ask(url, _get(method="HEAD")).partition(b"\r\n\r\n")
        assert b" 200 " in headers.splitlines()[0]
        assert body == b""
        assert b" 200 " in _ask(url, _get("/metrics?name=x")).splitlines()[0]


def test_who_connects_and_says_nothing_takes_a_place_for_a_while_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.metrics.serve._PATIENCE_S", 2.0)
    with serving(SweepState(), 0) as url, ExitStack() as stack:
        before = threading.active_count()
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", _port(url)), 20))
            for _ in range(3 * _MOST_AT_ONCE)
        ]
        for one in slow:
            with suppress(OSError):
                one.sendall(b"GET /metrics HTTP/1.0\r\nX-Never: ")
        # A thread and a timer for each that there is room for.
        assert threading.active_count() - before <= 2 * _MOST_AT_ONCE
        for one in slow:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
        assert "paceline_info" in scrape(url)


def test_garbage_is_answered_or_hung_up_on(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(SweepState(), 0) as url:
        for data in mutants([_get(), _get(host="evil.example")], 200):
            with suppress(ConnectionResetError):
                _ask(url, data + b"\r\n\r\n")
        assert "paceline_info" in scrape(url)
    assert capfd.readouterr().err == ""
