"""References to files by content, so that a host can find a file, or be sent it, without the controller's paths."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

_MEMO_ENTRIES = 500
_MAX_MEMO_BYTES = 2**20


class FileRef(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a file."""

    name: str
    """A relative path: what the file is called in messages, and below a folder that holds several files."""
    size: int
    sha256: str
    origin: str = ""
    """Where the controller has it. A host that has a file of the same size and the same time of modification at this
    path, because they share a file system, uses it in place."""
    modified_ns: int = 0

    def at_origin(self) -> Path | None:
        """The path of the file if this machine has it where the controller has it."""
        if not self.origin:
            return None
        with suppress(OSError, ValueError):
            found = os.stat(self.origin)
            if (found.st_size, found.st_mtime_ns) == (self.size, self.modified_ns):
                return Path(self.origin)
        return None


def reference(path: Path, name: str | None = None) -> FileRef:
    """The reference to a file of this machine; OSError if it cannot be read."""
    path = path.absolute()
    found = path.stat()
    return FileRef(
        name=name or path.name,
        size=found.st_size,
        sha256=_HashMemo().sha256(path, found),
        origin=str(path),
        modified_ns=found.st_mtime_ns,
    )


def references(paths: Iterable[str]) -> tuple[FileRef, ...]:
    """The references to several files of this machine."""
    return tuple(reference(Path(path)) for path in paths)


def cache_directory() -> Path:
    """The directory for files that are worth keeping between runs."""
    from platformdirs import user_cache_dir  # Imported here, because only some commands need it.

    return Path(user_cache_dir("paceline"))


def sha256_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class _HashMemo:
    """Remembers the hash of a file as long as its size and time of modification stay the same."""

    def __init__(self) -> None:
        self._path = cache_directory() / "hashes.json"

    def sha256(self, path: Path, found: os.stat_result) -> str:
        entries = self._read()
        known = entries.get(str(path))
        if known and known[:2] == (found.st_size, found.st_mtime_ns):
            return known[2]
        sha256 = sha256_of(path)
        entries.pop(str(path), None)
        entries[str(path)] = (found.st_size, found.st_mtime_ns, sha256)
        self._write(dict(list(entries.items())[-_MEMO_ENTRIES:]))
        return sha256

    def _read(self) -> dict[str, tuple[int, int, str]]:
        try:
            with self._path.open("rb") as file:
                return msgspec.json.decode(file.read(_MAX_MEMO_BYTES), type=dict[str, tuple[int, int, str]])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _write(self, entries: dict[str, tuple[int, int, str]]) -> None:
        """If two processes write at the same time, the entries of one are lost, which costs only time."""
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}.partial")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(entries))
            partial.replace(self._path)
