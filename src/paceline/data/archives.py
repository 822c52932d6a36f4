"""Archives read as streams: members by exact name, in pieces; no name in an archive becomes a name on disk."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from paceline.errors import DataError

PIECE = 2**18
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_AR_SIZE = slice(48, 58)
_XZ_MEMORY = 256 * 2**20
_READS_BEYOND = 8


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


def tar_members(
    label: str, plain: Iterable[bytes], names: Iterable[str]
) -> Generator[tuple[str, int, Iterator[bytes]], None, None]:
    """(name, size, content) of each member named, in the archive's order; what else it holds is passed over."""
    import tarfile

    missing = dict.fromkeys(names)
    with _archive_errors(label):
        source: Any = _Reader(plain)
        with tarfile.open(fileobj=source, mode="r|", bufsize=PIECE) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name in missing and member.isreg() else None
                if content is not None:
                    del missing[member.name]
                    yield member.name, member.size, _members_pieces(label, content)
    if missing:
        raise DataError(f"{label} lacks {', '.join(missing)}")


def extract(label: str, plain: Iterable[bytes], to: Mapping[str, Path]) -> None:
    """Writes the members named to the paths given."""
    for name, _, content in tar_members(label, plain, to):
        with to[name].open("wb") as out:
            out.writelines(content)


def ar_member(label: str, packed: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The content of one member of an ar archive, which is what a Debian package is."""
    archive = _Reader(packed)
    if archive.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise DataError(f"{label} is not an ar archive")
    while len(header := archive.read(_AR_HEADER)) == _AR_HEADER:
        digits = header[_AR_SIZE].strip()
        if not digits.isdigit():
            raise DataError(f"{label} is damaged: a member of {digits!r} bytes")
        found = header[:16].rstrip(b" /") == name.encode()
        left = int(digits)
        padded = left + left % 2
        while left and (piece := archive.read(min(left, PIECE))):
            left -= len(piece)
            padded -= len(piece)
            if found:
                yield piece
        if left:
            break
        if found:
            return
        archive.read(padded)
    raise DataError(f"{label} lacks {name}, or is cut short")


def unxz(packed: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The plain bytes of one xz stream, piece by piece, refused as soon as they pass the limit."""
    import lzma

    inflate = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    for piece in packed:
        while not inflate.eof:
            try:
                plain = inflate.decompress(piece, PIECE)
            except lzma.LZMAError as why:
                raise DataError(f"damaged xz data: {why}") from None
            limit -= len(plain)
            if limit < 0:
                raise DataError("xz data holds more than was expected")
            if plain:
                yield plain
            piece = b""
            if inflate.needs_input:
                break
    if not inflate.eof:
        raise DataError("xz data is cut short")


def _members_pieces(archive: str, content: IO[bytes]) -> Iterator[bytes]:
    with _archive_errors(archive):  # the consumer reads these, outside the loop over the members
        yield from pieces(content)


@contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    import tarfile

    try:
        yield
    except (tarfile.TarError, EOFError) as why:
        raise DataError(f"{name} is damaged: {why}") from None


class _Reader:
    """Pieces of bytes as the file that tarfile wants."""

    def __init__(self, source: Iterable[bytes]) -> None:
        self._pieces = iter(source)
        self._held = b""
        self._beyond = 0

    def read(self, size: int) -> bytes:
        while len(self._held) < size and (piece := next(self._pieces, b"")):
            self._held += piece
        taken, self._held = self._held[:size], self._held[size:]
        if not taken:
            # A member may claim exabytes, and tarfile reads on beyond the end until it has passed them.
            self._beyond += 1
            if self._beyond > _READS_BEYOND:
                raise EOFError("a member is longer than the archive")
        return taken
