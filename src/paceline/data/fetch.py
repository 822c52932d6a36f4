"""Fetches data files in one process while others wait: lock, check again, fetch, verify, rename."""

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.data.cache import FileSet, PinnedFile, directories, find, hash_mismatch
from paceline.errors import DataError

LOCK_TIMEOUT_S = 900.0
"""Longer than all sources together may take."""
_MAX_REASON_LENGTH = 200

Offer = Generator[tuple[PinnedFile, Iterable[bytes]], None, None]
"""The files that a source has, each with its uncompressed content in chunks."""


class Unavailable(DataError):
    """Every source was tried, and some file is still missing."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place to get files from. If it raises an error, the next source is tried for the files still missing."""

    label: str
    """Names the source in messages."""
    offer: Callable[[Sequence[PinnedFile], Path], Offer]
    """(requested files, a scratch directory) -> the requested files that the source has."""
    user_provided: bool = False
    """The user put it there: a wrong file is then an error and not a reason to try the next source."""


def fetch_once(file_set: FileSet, sources: Sequence[Source]) -> list[Path]:
    """The paths of all files of the set, verified.

    At most one process fetches at a time; if it is killed, a waiting process takes over.
    """
    requested_ns = time.time_ns()
    if not _missing(file_set):
        return _paths(file_set)
    directory = directories()[-1]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f".{file_set.name}.lock"):
            if missing := _missing(file_set):
                _fail_if_just_tried(file_set, sources, requested_ns)
                _fetch(file_set, missing, sources, directory)
            _failure_file(file_set).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot store data in {directory} ({error.strerror or error}): set PACELINE_DATA to a writable directory"
        ) from None
    return _paths(file_set)


def failure_reason(file_set: FileSet) -> str | None:
    """Why the last attempt to fetch the set failed, if it did."""
    try:
        return str(json.loads(_failure_file(file_set).read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _missing(file_set: FileSet) -> list[PinnedFile]:
    return [file for file in file_set.files if find(file) is None]


def _paths(file_set: FileSet) -> list[Path]:
    paths = [find(file, check_hash=False) for file in file_set.files]
    if not all(paths):
        raise DataError(f"files of {file_set.name} disappeared from {directories()[-1]} during the fetch: run again")
    return [path for path in paths if path is not None]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        with FileLock(path, timeout=LOCK_TIMEOUT_S):  # The system releases it when its owner dies.
            yield
    except Timeout:
        raise DataError(
            f"another process has held the lock {path} for {LOCK_TIMEOUT_S:.0f} s: end it if it is stuck"
        ) from None


def _fetch(file_set: FileSet, missing: list[PinnedFile], sources: Sequence[Source], directory: Path) -> None:
    for leftover in directory.glob(f".{file_set.name}.fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)  # We hold the lock, so the process that made it was killed.
    for file in missing:
        # A file of this name in our cache is damaged; remove it, since `load` checks only its size.
        (directory / file.name).unlink(missing_ok=True)
    failures: list[str] = []
    with TemporaryDirectory(prefix=f".{file_set.name}.fetch-", dir=directory, ignore_cleanup_errors=True) as temp:
        for source in sources:
            try:
                with closing(source.offer(tuple(missing), Path(temp))) as offer:
                    for file, chunks in offer:
                        store(file, chunks, Path(temp), directory)
                        missing.remove(file)
            except (OSError, DataError) as error:
                if source.user_provided:
                    raise DataError(f"{source.label}: {_one_line(error)}") from None
                failures.append(f"{source.label}: {_one_line(error)}")
            if not missing:
                return
    reason = "; ".join(failures) or "no source has it"
    _record_failure(file_set, sources, reason, directory)
    raise Unavailable(reason)


def store(file: PinnedFile, chunks: Iterable[bytes], scratch: Path, directory: Path) -> Path:
    """Write a file to the scratch directory, verify it and then rename it to its place in `directory`."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    temporary, final = scratch / f"{file.name}.part", directory / file.name
    for path in (temporary, final):
        path.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise DataError(f"{file.name} is longer than the {file.size} bytes expected")
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    if file.sha256 is not None and digest.hexdigest() != file.sha256:
        raise DataError(hash_mismatch(file.name, file.sha256, digest.hexdigest()))
    if size != file.size:
        raise DataError(f"{file.name} must have {file.size} bytes, has {size}")
    os.replace(temporary, final)
    return final


def _failure_file(file_set: FileSet) -> Path:
    return directories()[-1] / f".{file_set.name}.unavailable.json"


def _record_failure(file_set: FileSet, sources: Sequence[Source], reason: str, directory: Path) -> None:
    tried = [source.label for source in sources]
    record = {"tried": tried, "reason": reason, "at_ns": time.time_ns()}
    temporary = directory / f".{file_set.name}.unavailable.part"  # We hold the lock, so no one else writes it.
    temporary.write_text(json.dumps(record))
    os.replace(temporary, _failure_file(file_set))


def _fail_if_just_tried(file_set: FileSet, sources: Sequence[Source], requested_ns: int) -> None:
    """Fail if another process has tried the same sources in vain while this one waited for the lock.

    Otherwise eight waiting processes would wait for eight timeouts, one after the other.
    """
    try:
        record = json.loads(_failure_file(file_set).read_bytes())
        same_sources = record["tried"] == [source.label for source in sources]
        while_waiting, reason = record["at_ns"] >= requested_ns, str(record["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if same_sources and while_waiting:
        raise Unavailable(reason)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:_MAX_REASON_LENGTH]
