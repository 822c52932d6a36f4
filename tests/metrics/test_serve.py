"""Where metrics are served: on the loopback address, at a port that is free, and nowhere else."""

import re
import socket
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest

from metrics.scrape import scrape
from paceline.cli.main import run_command
from paceline.errors import MetricsError
from paceline.metrics.serve import serving
from paceline.metrics.sweep import SweepState


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
