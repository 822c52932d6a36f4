"""Fetching by one process while the others wait: lock, look again, fetch, verify, rename."""

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.data.cache import FileSet, Pinned, directories, find, hash_mismatch
from paceline.errors import DataError

LOCK_S = 900.0  # longer than every source together may take
_REASON_LENGTH = 200

Offer = Generator[tuple[Pinned, Iterable[bytes]], None, None]


class Unavailable(DataError):
    """Every source was tried, and some file is still missing."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place to get files from; what it raises ends it, and the next source is asked for the rest."""

    label: str
    offer: Callable[[Sequence[Pinned], Path], Offer]
    """(files wanted, a scratch directory) -> each file it has, with its plain bytes"""
    users_own: bool = False
    """a bad file of the user's is an error, not a reason to look elsewhere"""


def fetch_once(wanted: FileSet, sources: Sequence[Source]) -> list[Path]:
    """Every file of the set, verified; at most one process fetches, and a killed one is taken over from."""
    asked_ns = time.time_ns()
    if not _missing(wanted):
        return _paths(wanted)
    directory = directories()[-1]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f".{wanted.name}.lock"):
            if missing := _missing(wanted):
                _refuse_if_just_tried(wanted, sources, asked_ns)
                _fetch(wanted, missing, sources, directory)
            _failure_file(wanted).unlink(missing_ok=True)
    except OSError as why:
        raise DataError(f"cannot keep data in {directory} ({why.strerror or why}): set PACELINE_DATA") from None
    return _paths(wanted)


def why_unavailable(wanted: FileSet) -> str | None:
    """Why the last attempt to fetch the set failed, if it did."""
    try:
        return str(json.loads(_failure_file(wanted).read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _missing(wanted: FileSet) -> list[Pinned]:
    return [file for file in wanted.files if find(file) is None]


def _paths(wanted: FileSet) -> list[Path]:
    paths = [find(file, hashed=False) for file in wanted.files]
    if not all(paths):
        raise DataError(f"files of {wanted.name} vanished from {directories()[-1]} while being fetched")
    return [path for path in paths if path is not None]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        with FileLock(path, timeout=LOCK_S):  # the system frees it when its holder dies
            yield
    except Timeout:
        raise DataError(f"another process has held {path} for {LOCK_S:.0f} s: is it stuck?") from None


def _fetch(wanted: FileSet, missing: list[Pinned], sources: Sequence[Source], directory: Path) -> None:
    for left_behind in directory.glob(f".{wanted.name}.fetch-*"):
        shutil.rmtree(left_behind, ignore_errors=True)  # we hold the lock: its owner was killed
    for file in missing:
        (directory / file.name).unlink(missing_ok=True)  # ours, and damaged: `load` must not take it for good
    failures: list[str] = []
    with TemporaryDirectory(prefix=f".{wanted.name}.fetch-", dir=directory, ignore_cleanup_errors=True) as temp:
        for source in sources:
            try:
                with closing(source.offer(tuple(missing), Path(temp))) as offer:
                    for file, chunks in offer:
                        store(file, chunks, Path(temp), directory)
                        missing.remove(file)
            except (OSError, DataError) as why:
                if source.users_own:
                    raise DataError(f"{source.label}: {_one_line(why)}") from None
                failures.append(f"{source.label}: {_one_line(why)}")
            if not missing:
                return
    reason = "; ".join(failures) or "no source had it"
    _remember_failure(wanted, sources, reason, directory)
    raise Unavailable(reason)


def store(file: Pinned, chunks: Iterable[bytes], scratch: Path, directory: Path) -> Path:
    """Puts a file under its name, once it is whole and right."""
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


def _failure_file(wanted: FileSet) -> Path:
    return directories()[-1] / f".{wanted.name}.unavailable.json"


def _remember_failure(wanted: FileSet, sources: Sequence[Source], reason: str, directory: Path) -> None:
    tried = [source.label for source in sources]
    record = {"tried": tried, "reason": reason, "at_ns": time.time_ns()}
    temporary = directory / f".{wanted.name}.unavailable.part"  # under the lock: nobody else writes it
    temporary.write_text(json.dumps(record))
    os.replace(temporary, _failure_file(wanted))


def _refuse_if_just_tried(wanted: FileSet, sources: Sequence[Source], asked_ns: int) -> None:
    """Eight processes must not wait out eight timeouts: what failed while we waited for the lock has failed."""
    try:
        record = json.loads(_failure_file(wanted).read_bytes())
        same = record["tried"] == [source.label for source in sources]
        while_we_waited, reason = record["at_ns"] >= asked_ns, str(record["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if same and while_we_waited:
        raise Unavailable(reason)


def _one_line(why: Exception) -> str:
    return " ".join(str(why).split())[:_REASON_LENGTH]
