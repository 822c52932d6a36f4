"""Where data files live, and whether what lies there is what it should be."""

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError


@dataclass(frozen=True, slots=True)
class Pinned:
    """A plain file by name and content, whoever brings it."""

    name: str
    """in the data directory; with a folder where the original name is not telling enough"""
    size: int
    sha256: str | None
    """None: drawn on this machine, so only the size is known beforehand"""


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files that are fetched together, under one lock."""

    name: str
    files: tuple[Pinned, ...]


def user_dir() -> Path | None:
    """The directory the user named in $PACELINE_DATA."""
    named = os.environ.get("PACELINE_DATA")
    if not named:
        return None
    path = Path(os.path.expanduser(named)).absolute()
    if os.path.isfile(path):
        raise DataError(f"PACELINE_DATA must be a directory: {path} is a file")
    return path


def directories() -> list[Path]:
    """Where files are looked for, in order; the last is where new ones go."""
    user = user_dir()
    if user is None:
        return [_own_dir()]
    if _can_write(user):
        return [user]
    if not os.path.isdir(user):
        raise DataError(f"PACELINE_DATA names {user}, which does not exist and cannot be made")
    return [user, _own_dir()]  # read-only: what is there is used, what is missing goes to our own


def find(file: Pinned, *, hashed: bool = True) -> Path | None:
    """The file, if it is there and right; a wrong one in the user's own directory is an error."""
    user = user_dir()
    for directory in directories():
        path = directory / file.name
        if not os.path.isfile(path):  # unlike Path's, no error where we may not look
            continue
        wrong = mismatch(path, file, hashed=hashed)
        if wrong is None:
            return path
        if directory == user:
            raise DataError(f"{wrong}: remove the file, or point PACELINE_DATA elsewhere")
    return None


def find_all(wanted: FileSet) -> list[Path] | None:
    """Every file of the set by name and size, or nothing."""
    paths = [path for file in wanted.files if (path := find(file, hashed=False))]
    return paths if len(paths) == len(wanted.files) else None


def hash_mismatch(where: str, expected: str, found: str) -> str:
    """One line for a file that is not what it claims to be."""
    return f"{where} is not the file expected: SHA-256 must be {expected}, is {found}"


def mismatch(path: Path, file: Pinned, *, hashed: bool = True, called: str | None = None) -> str | None:
    """What is wrong with the file at a path, if anything; `called` is for who has named the path already."""
    called = called or str(path)
    try:
        if hashed and file.sha256 is not None:
            found = _sha256(path)
            return None if found == file.sha256 else hash_mismatch(called, file.sha256, found)
        size = path.stat().st_size
    except OSError as why:
        raise DataError(f"cannot read {path}: {why.strerror}") from None
    return None if size == file.size else f"{called} must have {file.size} bytes, has {size}"


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _own_dir() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("paceline")) / "data"


def _can_write(directory: Path) -> bool:
    existing = next((path for path in (directory, *directory.parents) if os.path.exists(path)), None)
    return existing is not None and os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)
