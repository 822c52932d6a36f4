"""Installs Paceline and engines on remote machines: a wheel of this machine's code, in a virtual environment there."""

import io
import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import msgspec

from paceline.errors import HostError
from paceline.hosts.wheels import installed_versions, needed_distributions, own_wheel, wheel_of
from paceline.versions import code_hash

_AT_ONCE = 8
_INSTALL_TIMEOUT_S = 1800.0
_HOME = '"${XDG_CACHE_HOME:-$HOME/.cache}/paceline"'
_RESULT = "paceline-prepared:"
_NO_PACKAGE = ("ResolutionImpossible", "No matching distribution found", "Could not find a version")
"""What pip says if it cannot reach its index, or does not find a version there."""
OnLine = Callable[[str], None]
"""Called with a line of text for the user."""


class Shell(Protocol):
    """Runs scripts of the POSIX shell on one machine."""

    label: str
    """What the user calls the machine."""

    def run(self, script: str, *, stdin: bytes, timeout_s: float) -> "subprocess.CompletedProcess[bytes]":
        """Run a script to its end; HostError if the machine does not answer in time."""
        ...


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed on every machine."""

    engines: tuple[str, ...]
    """The names of the engines, which are also the extras that bring their frameworks."""
    offline: bool = False
    """Whether to send the packages of this machine, instead of letting each machine download the same versions."""


def prepare(shells: Sequence[Shell], packages: Packages, on_line: OnLine) -> None:
    """Install the packages on all machines; HostError that names the first machine on which it failed."""
    with tempfile.TemporaryDirectory(prefix="paceline-prepare-") as folder:
        bundle = _bundle(Path(folder), packages, on_line)
        script = _script(packages)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            outcomes = list(pool.map(lambda shell: _prepare_one(shell, script, bundle, on_line), shells))
    failures = [outcome for outcome in outcomes if outcome]
    if failures:
        raise HostError("; ".join(failures))


def _bundle(folder: Path, packages: Packages, on_line: OnLine) -> bytes:
    """An archive with the wheel of Paceline, the versions to install and, without a network, all other wheels."""
    files = [own_wheel(folder)]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(sorted(installed_versions())) + "\n")
    files.append(constraints)
    if packages.offline:
        for installed in needed_distributions(packages.engines):
            on_line(f"packing {installed.metadata['Name']} {installed.version}")
            files.append(wheel_of(installed, folder))
    return _archive(files)


def _archive(files: Iterable[Path]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for file in files:
            archive.add(file, file.name)
    return stream.getvalue()


def _script(packages: Packages) -> str:
    """Reads the archive from stdin, makes the virtual environment if it is missing, and installs into it."""
    python = f"python{'.'.join(platform.python_version_tuple()[:2])}"
    source = "--no-index --find-links wheels" if packages.offline else "-c wheels/constraints.txt"
    extras = f"[{','.join(packages.engines)}]" if packages.engines else ""
    return f"""
set -e
umask 077
mkdir -p {_HOME}
cd {_HOME}
rm -rf wheels
mkdir wheels
tar -x -C wheels -f - --no-same-owner
if ! venv/bin/python -c '' 2>/dev/null; then
  P=$(command -v {python} || command -v python3) || {{ echo 'it has no {python}: install Python there' >&2; exit 1; }}
  "$P" -c 'import sys; sys.exit("it has Python %d.%d, this machine has {python[6:]}: install {python} there" \
% sys.version_info[:2] if sys.version_info[:2] != {tuple(map(int, python[6:].split(".")))!r} else 0)'
  rm -rf venv
  "$P" -m venv venv || {{ echo 'it cannot make a virtual environment: install {python}-venv there' >&2; exit 1; }}
fi
W=$(ls wheels/paceline-*.whl)
venv/bin/python -m pip install --quiet --disable-pip-version-check {source} --force-reinstall --no-deps "$W"
venv/bin/python -m pip install --quiet --disable-pip-version-check {source} "paceline{extras} @ file://$PWD/$W"
rm -rf wheels
echo {_RESULT}$(venv/bin/python -P -c 'from paceline.versions import code_hash; print(code_hash())')
"""


def explain_failure(output: str) -> str:
    """The line of the installer's output that says what went wrong, with the remedy if a package cannot be had."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(words in line for line in lines for words in _NO_PACKAGE):
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        return (
            f"its package index lacks packages ({errors[0] if errors else lines[-1]}): give it access to PyPI, or "
            "send the packages of this machine with --offline"
        )
    return lines[-1] if lines else ""


def _prepare_one(shell: Shell, script: str, bundle: bytes, on_line: OnLine) -> str | None:
    """Why the machine could not be prepared, in one line; None if it is ready."""
    on_line(f"{shell.label}: installing")
    try:
        answer = shell.run(script, stdin=bundle, timeout_s=_INSTALL_TIMEOUT_S)
    except HostError as error:
        return str(error)
    lines = answer.stdout.decode(errors="replace").splitlines()
    installed = next((line.removeprefix(_RESULT) for line in lines if line.startswith(_RESULT)), None)
    if answer.returncode or installed is None:
        said = explain_failure(answer.stderr.decode(errors="replace")) or f"exit code {answer.returncode}"
        return f"{shell.label} could not be prepared: {said}"
    if installed != code_hash():
        return f"{shell.label} could not be prepared: it has other code than this machine after the installation"
    on_line(f"{shell.label}: ready")
    return None
