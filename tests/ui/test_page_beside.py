"""The server beside `paceline run --ui`: it ends with the command, however the command ends."""

import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from paceline.cli.main import run_command
from paceline.errors import PageError
from paceline.ui.beside import page_beside
from report.stored import store_run

PARENT = """
import sys, time
from paceline.ui.beside import page_beside
with page_beside(sys.argv[1]) as address:
    print(address, flush=True)
    time.sleep(60)
"""


def status(address: str) -> int:
    connection = HTTPConnection("127.0.0.1", urlsplit(address).port or 0, timeout=20)
    connection.request("GET", f"/api/runs?{urlsplit(address).query}")
    return connection.getresponse().status


def test_the_page_is_served_while_the_context_is_open(tmp_path: Path) -> None:
    store_run(tmp_path, steps=20)
    with page_beside(str(tmp_path)) as address:
        assert address.endswith("#/latest")
        assert status(address) == 200
    with pytest.raises(ConnectionRefusedError):
        status(address)


def test_the_server_ends_if_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    assert status(parent.stdout.readline().strip()) == 200
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run_command(["ui", "--port", "0"]) == 2
    assert "pip install 'paceline[ui]'" in capsys.readouterr().err
    monkeypatch.setattr("paceline.ui.beside.installed_version", lambda _names: None)
    with pytest.raises(PageError, match="starlette"), page_beside("runs"):
        pass
