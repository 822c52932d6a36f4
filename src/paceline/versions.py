"""Versions of installed distributions, found without the cost of importing importlib.metadata."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

_SUFFIX = ".dist-info"


def installed_version(distributions: Sequence[str]) -> str | None:
    """The version of the first of these distributions that is installed; None if none is.

    It is part of the name of the directory in which an installer records the distribution. Every agent asks for
    versions when it starts, and importing importlib.metadata would take half of its start-up time.
    """
    recorded = _recorded(tuple(sys.path))
    for name in distributions:
        if version := recorded.get(_normalized(name)):
            return version
    return _slow_version(distributions)


@cache
def code_hash() -> str:
    """A short hash of Paceline's own code, which tells two installations of the same version apart."""
    from hashlib import sha256
    from pathlib import Path

    digest, package = sha256(), Path(__file__).parent
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _recorded(path: tuple[str, ...]) -> dict[str, str]:
    """Version by normalized name; what comes first on the import path counts."""
    found: dict[str, str] = {}
    for directory in path:
        with suppress(OSError):
            for entry in os.listdir(directory or "."):
                if entry.endswith(_SUFFIX):
                    name, _, version = entry.removesuffix(_SUFFIX).partition("-")
                    found.setdefault(_normalized(name), version)
    return found


def _slow_version(distributions: Sequence[str]) -> str | None:
    """Packages of a Linux distribution may be recorded in another form."""
    from importlib.metadata import PackageNotFoundError, version

    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
