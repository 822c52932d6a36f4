"""Finds data files in the user's data directory or the cache, and checks them by SHA-256 or, without one, by size."""

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """The name and expected content of an uncompressed data file, wherever it comes from."""

    name: str
    """Path relative to the data directory. It includes a folder if two data sets use the same file name."""
    size: int
    sha256: str | None
    """None for a file that is generated on this machine: only its size is known beforehand."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files that are fetched together, under one lock."""

    name: str
    files: tuple[PinnedFile, ...]


def user_dir() -> Path | None:
    """The directory in $PACELINE_DATA, or None if it is not set."""
    value = os.environ.get("PACELINE_DATA")
    if not value:
        return None
    path = Path(os.path.expanduser(value)).absolute()
    if os.path.isfile(path):
        raise DataError(f"PACELINE_DATA must be a directory: {path} is a file")
    return path


def directories() -> list[Path]:
    """The directories to search, in order; new files are stored in the last one."""
    user = user_dir()
    if user is None:
        return [_cache_dir()]
    if _can_write(user):
        return [user]
    if not os.path.isdir(user):
        raise DataError(
            f"PACELINE_DATA names {user}, which does not exist and cannot be created: choose another directory"
        )
    return [user, _cache_dir()]  # The user's directory is read-only, so missing files are stored in our own.


def find(file: PinnedFile, *, check_hash: bool = True) -> Path | None:
    """The path of the file, or None if no directory has the right one.

    A file with the wrong content in the user's directory is an error. Without `check_hash` only the size is checked.
    """
    user = user_dir()
    for directory in directories():
        path = directory / file.name
        if not os.path.isfile(path):  # Unlike Path.is_file, this is no error in a directory we may not read.
            continue
        problem = mismatch(path, file, check_hash=check_hash)
        if problem is None:
            return path
        if directory == user:
            raise DataError(f"{problem}: remove the file, or set PACELINE_DATA to another directory")
    return None


def find_all(file_set: FileSet) -> list[Path] | None:
    """The paths of all files of the set, checked by size only; None if one is missing or has another size."""
    paths = [path for file in file_set.files if (path := find(file, check_hash=False))]
    return paths if len(paths) == len(file_set.files) else None


def hash_mismatch(label: str, expected: str, actual: str) -> str:
    """The error line for a file with the wrong content."""
    return f"{label} is not the file expected: SHA-256 must be {expected}, is {actual}"


def mismatch(path: Path, file: PinnedFile, *, check_hash: bool = True, label: str | None = None) -> str | None:
    """What is wrong with the file at `path`, or None; `label` names it in the message instead of the path."""
    label = label or str(path)
    try:
        if check_hash and file.sha256 is not None:
            actual = _sha256(path)
            return None if actual == file.sha256 else hash_mismatch(label, file.sha256, actual)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    return None if size == file.size else f"{label} must have {file.size} bytes, has {size}"


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _cache_dir() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("paceline")) / "data"


def _can_write(directory: Path) -> bool:
    existing = next((path for path in (directory, *directory.parents) if os.path.exists(path)), None)
    return existing is not None and os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)
