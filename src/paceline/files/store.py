"""The files of one host, found by content: those the controller sent, and those that both have at the same path."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from paceline.errors import RunError
from paceline.files.reference import FileRef

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStore:
    """Finds files by their reference, and receives those that are missing.

    Files worth keeping are stored in `cache` and are there for later runs; all others in `scratch`, which is removed
    at the end of the run.
    """

    def __init__(self, cache: Path, scratch: Path) -> None:
        self.scratch = scratch
        """A directory for anything else that a task writes; it is removed at the end of the run."""
        self._cache, self._scratch = cache / "files", scratch / "files"
        self._incoming: dict[str, _IncomingFile] = {}

    def find(self, file: FileRef) -> Path | None:
        """The path of the file on this host; None if the host does not have it."""
        if at_origin := file.at_origin():
            return at_origin
        for folder in (self._cache, self._scratch):
            path = folder / _checked(file.sha256)
            # Its content was verified when it was stored, and it appeared by rename: only its size can be wrong.
            if path.is_file() and path.stat().st_size == file.size:
                return path
        return None

    def path(self, file: FileRef) -> Path:
        """The path of a file that the host must have by now."""
        found = self.find(file)
        if found is None:
            raise RunError(f"{file.name} is not on this host: it changed or was removed while the run was starting")
        return found

    def missing(self, files: Iterable[FileRef]) -> list[FileRef]:
        return [file for file in files if self.find(file) is None]

    def expect(self, file: FileRef, *, keep: bool) -> None:
        """Prepare to receive a file; `keep` stores it in the cache. OSError if there is no space for it."""
        folder = self._cache if keep else self._scratch
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._incoming[_checked(file.sha256)] = _IncomingFile(folder, file)

    def receive(self, sha256: str, data: bytes) -> bool:
        """Store the next part of an expected file; whether the file is complete now.

        OSError if it cannot be written, RunError if its content is not what was announced.
        """
        incoming = self._incoming.get(sha256)
        if incoming is None:
            raise RunError(f"received a part of a file that was not requested: {sha256[:12]}")
        try:
            complete = incoming.add(data)
        except BaseException:
            del self._incoming[sha256]
            incoming.discard()
            raise
        if complete:
            del self._incoming[sha256]
        return complete

    def folder_of(self, files: tuple[FileRef, ...]) -> Path:
        """A folder in which every file has its name.

        It is the folder of the controller if this host has all of them there, so that code finds what else is in it.
        """
        if origins := [file.at_origin() for file in files]:
            first = origins[0]
            if first is not None and None not in origins:
                return Path(str(first).removesuffix(files[0].name))
        digest = hashlib.sha256("".join(f"{file.name}\0{file.sha256}\0" for file in files).encode()).hexdigest()
        folder = self._scratch / f"folder-{digest[:16]}"
        for file in files:
            _place(self.path(file), _below(folder, file.name))
        return folder


class _IncomingFile:
    def __init__(self, folder: Path, file: FileRef) -> None:
        self._file, self._target = file, folder / file.sha256
        self._partial = folder / f".{file.sha256[:16]}-{secrets.token_hex(4)}.partial"
        self._output: BinaryIO = self._partial.open("xb")
        self._hash = hashlib.sha256()
        self._received = 0
        if hasattr(os, "posix_fallocate") and file.size:
            try:
                os.posix_fallocate(self._output.fileno(), 0, file.size)  # A full disk is noticed before the transfer.
            except OSError:
                self.discard()
                raise

    def add(self, data: bytes) -> bool:
        self._received += len(data)
        if self._received > self._file.size:
            raise RunError(f"{self._file.name} has more than the announced {self._file.size} bytes")
        self._output.write(data)
        self._hash.update(data)
        if self._received < self._file.size:
            return False
        self._output.close()
        if self._hash.hexdigest() != self._file.sha256:
            raise RunError(f"{self._file.name} arrived with other content than announced: it changed on the way")
        self._partial.replace(self._target)
        return True

    def discard(self) -> None:
        self._output.close()
        self._partial.unlink(missing_ok=True)


def _checked(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise RunError("a file reference has no valid SHA-256")
    return sha256


def _below(folder: Path, name: str) -> Path:
    """The path of a relative name inside a folder; RunError if the name leads out of the folder."""
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise RunError(f"a file reference is named '{name}': it must be a relative path without ..")
    return folder / relative


def _place(source: Path, target: Path) -> None:
    """Make `target` a link to `source`; several tasks of a host may do it at the same time."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not target.is_symlink():
        temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
        temporary.symlink_to(source)
        temporary.replace(target)
