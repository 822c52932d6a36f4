"""npm and Debian packages made by tests, and a fake npm command that delivers them."""

import io
import lzma
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="the fake npm is an executable script")
COPY_ARCHIVE = "into = sys.argv[sys.argv.index('--pack-destination') + 1]; shutil.copy({!r}, into)"


def tar_archive(members: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return plain.getvalue()


def write_package(path: Path, members: dict[str, bytes]) -> None:
    """Write a .tar.gz with these members."""
    import gzip

    path.write_bytes(gzip.compress(tar_archive(members), 1))


def debian_archive(members: dict[str, bytes]) -> bytes:
    """The content of a .deb with these members."""
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        "data.tar.xz": lzma.compress(tar_archive(members), preset=0),
    }
    return ar_archive(parts)


def ar_archive(parts: dict[str, bytes]) -> bytes:
    blocks = [b"!<arch>\n"]
    for name, data in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        blocks += [header, data, b"\n" * (len(data) % 2)]
    return b"".join(blocks)


def install_npm(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make a fake npm, which runs `script`, the only command on PATH."""
    directory.mkdir()
    npm = directory / "npm"
    npm.write_text(f"#!{sys.executable}\nimport shutil, sys\n{script}\n")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(directory))
