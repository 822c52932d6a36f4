"""Reads tar, ar and xz archives as streams.

Members are selected by their exact name and read in chunks; no name in an archive ever becomes a name on disk.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from paceline.errors import DataError

CHUNK_BYTES = 2**18
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER_BYTES = 60
_AR_SIZE = slice(48, 58)
"""Where in the header of an ar member its size is, in decimal digits."""
_XZ_MEMORY_BYTES = 256 * 2**20
_MAX_READS_AFTER_END = 8


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def tar_members(
    label: str, chunks: Iterable[bytes], names: Iterable[str]
) -> Generator[tuple[str, int, Iterator[bytes]], None, None]:
    """(name, size, content) of each named member of an uncompressed tar archive, in the order of the archive.

    `label` names the archive in error messages. All other members are skipped.
    """
    import tarfile

    missing = dict.fromkeys(names)
    with _archive_errors(label):
        source: Any = _Reader(chunks)
        with tarfile.open(fileobj=source, mode="r|", bufsize=CHUNK_BYTES) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name in missing and member.isreg() else None
                if content is not None:
                    del missing[member.name]
                    yield member.name, member.size, _member_chunks(label, content)
    if missing:
        raise DataError(f"{label} lacks {', '.join(missing)}")


def extract(label: str, chunks: Iterable[bytes], paths: Mapping[str, Path]) -> None:
    """Write members of an uncompressed tar archive to files; `paths` is member name -> path."""
    for name, _, content in tar_members(label, chunks, paths):
        with paths[name].open("wb") as out:
            out.writelines(content)


def ar_member(label: str, chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The content of one member of an ar archive; a Debian package is an ar archive."""
    archive = _Reader(chunks)
    if archive.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise DataError(f"{label} is not an ar archive")
    while len(header := archive.read(_AR_HEADER_BYTES)) == _AR_HEADER_BYTES:
        digits = header[_AR_SIZE].strip()
        if not digits.isdigit():
            raise DataError(f"{label} is damaged: a member of {digits!r} bytes")
        is_requested = header[:16].rstrip(b" /") == name.encode()
        remaining = int(digits)
        padded = remaining + remaining % 2
        while remaining and (chunk := archive.read(min(remaining, CHUNK_BYTES))):
            remaining -= len(chunk)
            padded -= len(chunk)
            if is_requested:
                yield chunk
        if remaining:
            break
        if is_requested:
            return
        archive.read(padded)
    raise DataError(f"{label} lacks {name}, or is cut short")


def unxz(compressed: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The uncompressed bytes of one xz stream, in chunks; an error as soon as there are more than `limit`."""
    import lzma

    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    for chunk in compressed:
        while not decompressor.eof:
            try:
                plain = decompressor.decompress(chunk, CHUNK_BYTES)
            except lzma.LZMAError as error:
                raise DataError(f"damaged xz data: {error}") from None
            limit -= len(plain)
            if limit < 0:
                raise DataError("xz data holds more than was expected")
            if plain:
                yield plain
            chunk = b""
            if decompressor.needs_input:
                break
    if not decompressor.eof:
        raise DataError("xz data is cut short")


def _member_chunks(label: str, content: IO[bytes]) -> Iterator[bytes]:
    # The caller of `tar_members` reads these, outside of the error handling there.
    with _archive_errors(label):
        yield from read_chunks(content)


@contextmanager
def _archive_errors(label: str) -> Iterator[None]:
    import tarfile

    try:
        yield
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"{label} is damaged: {error}") from None


class _Reader:
    """Chunks of bytes as a file object, as far as tarfile needs one."""

    def __init__(self, source: Iterable[bytes]) -> None:
        self._chunks = iter(source)
        self._buffer = b""
        self._reads_after_end = 0

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self._buffer += chunk
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        if not data:
            # A damaged header may announce a member of exabytes; tarfile would read until it has passed them.
            self._reads_after_end += 1
            if self._reads_after_end > _MAX_READS_AFTER_END:
                raise EOFError("a member is longer than the archive")
        return data
