"""Makes wheels of what is installed on this machine, so that other machines can install exactly the same."""

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

from paceline.errors import HostError

_OWN = "paceline"
_TIME = (2020, 1, 1, 0, 0, 0)
"""The time of every file in a wheel, so that the same code always makes the same file."""


def own_wheel(folder: Path) -> Path:
    """A wheel of Paceline as it runs now, also if it was installed from a source tree in development mode."""
    package, installed = Path(__file__).parents[1], distribution(_OWN)
    files = {
        f"{_OWN}/{file.relative_to(package)}": file
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    return _write_wheel(folder, installed, files, "py3-none-any")


def wheel_of(installed: Distribution, folder: Path) -> Path:
    """A wheel of a distribution that is installed here; HostError if its installer has not recorded its files."""
    files = {}
    for file in installed.files or []:
        path = Path(str(file.locate()))
        # Scripts and data are outside of the package folder; a task needs neither.
        if file.parts[0] not in ("..", "/") and "__pycache__" not in file.parts and path.is_file():
            files[file.as_posix()] = path
    if not files:
        raise HostError(f"{_name(installed)} has no list of its files: install it on the hosts by other means")
    return _write_wheel(folder, installed, files, _tag(installed))


def needed_distributions(extras: Sequence[str]) -> list[Distribution]:
    """What Paceline needs on this machine with these extras, itself excepted."""
    found: dict[str, Distribution] = {}
    waiting = [(_OWN, frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (*wanted, "")
            )
            key = _normalized(requirement.name)
            if not applies or (key in found and not requirement.extras):
                continue
            try:
                found[key] = distribution(requirement.name)
            except PackageNotFoundError:
                continue  # An optional part of a dependency.
            if key != _OWN:
                waiting.append((requirement.name, frozenset(requirement.extras)))
    found.pop(_OWN, None)
    return list(found.values())


def installed_versions() -> Iterator[str]:
    """A line `name==version` for each distribution of this machine, as constraints for pip."""
    for installed in distributions():
        name = installed.metadata["Name"]
        if name and _normalized(name) != _OWN:
            # A local label, as in 2.13.0+cpu, names the build of this machine; another machine may have another one.
            yield f"{name}=={installed.version.partition('+')[0]}"


def _write_wheel(folder: Path, installed: Distribution, files: dict[str, Path], tag: str) -> Path:
    stem = f"{re.sub(r'[-_.]+', '_', _name(installed))}-{installed.version}"
    info = f"{stem}.dist-info"
    contents = {name: path.read_bytes() for name, path in files.items() if ".dist-info/" not in name}
    for name in ("METADATA", "entry_points.txt", "top_level.txt"):
        if text := installed.read_text(name):
            contents[f"{info}/{name}"] = text.encode()
    purelib = "true" if tag.endswith("-none-any") else "false"
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: paceline\nRoot-Is-Purelib: {purelib}\nTag: {tag}\n".encode()
    )
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), data)
    return path


def _tag(installed: Distribution) -> str:
    """The tag that the distribution was installed with, or one of this machine if it has several."""
    recorded = [line.split(":", 1)[1].strip() for line in (installed.read_text("WHEEL") or "").splitlines()
                if line.startswith("Tag:")]  # fmt: skip
    supported = {str(tag) for tag in sys_tags()}
    return next((tag for tag in recorded if tag in supported), next(iter(recorded), "py3-none-any"))


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _name(installed: Distribution) -> str:
    return str(installed.metadata["Name"])


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
