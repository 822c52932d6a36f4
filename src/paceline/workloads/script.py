"""What a user's own script is to the rest of Paceline: a workload of which only the name and the files are known."""

import importlib.util
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from paceline.errors import SpecError
from paceline.spec.script import is_module, target
from paceline.workloads.user_workload import content_hash, python_files
from paceline.workloads.workload import Workload

_MAX_NAME = 48


def script_workload(argv: Sequence[str]) -> Workload:
    """A workload with the name of the script or module; SpecError if it does not exist."""
    script_path(argv)
    return Workload(name=_run_name(argv), train_examples=0, lr=0.0)


def script_path(argv: Sequence[str]) -> Path:
    """The file of the script or module; SpecError if it does not exist."""
    name = target(argv)
    if is_module(argv):
        return _module_path(name)
    path = Path(name).absolute()
    if path.is_dir():
        raise SpecError(f"{name} is a directory: give the path of a Python script, or -m and the name of a module")
    if not path.is_file():
        raise SpecError(f"there is no file {name}: give the path of your training script, or -m and a module")
    return path


def script_hash(argv: Sequence[str]) -> str:
    """A short hash of the file of the script."""
    return content_hash(script_path(argv))


def script_files(argv: Sequence[str]) -> list[tuple[str, Path]]:
    """What a host needs to run the script: its file first, then the Python files of the working directory and of the
    script's own directory, each with the packages in it.

    Each has its path relative to the working directory. A module that is installed must be installed on every host; the
    packages of the working directory are sent all the same.
    """
    root, main = Path.cwd(), script_path(argv)
    if not main.is_relative_to(root):
        if is_module(argv):
            return [(str(path.relative_to(root)), path) for path in python_files(root, main) if path != main]
        root = main.parent
    files = list(dict.fromkeys([*python_files(root, main), *python_files(main.parent, main)]))
    return [(str(path.relative_to(root)), path) for path in files]


def _module_path(name: str) -> Path:
    """As `python -m` finds it from the working directory."""
    spec = None
    with suppress(ImportError, ValueError, AttributeError):
        sys.path.insert(0, "")
        try:
            importlib.invalidate_caches()
            spec = importlib.util.find_spec(name)
            if spec and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{name}.__main__")
        finally:
            sys.path.remove("")
    if spec is None or not spec.origin:
        raise SpecError(f"there is no module {name}: install it, or run in the directory that contains it")
    return Path(spec.origin)


def _run_name(argv: Sequence[str]) -> str:
    """The name of the script in the ids of its runs: `Train MNIST.py` -> `train-mnist`."""
    stem = target(argv).rpartition(".")[2] if is_module(argv) else Path(target(argv)).stem
    return re.sub(r"[^a-z0-9]+", "-", stem.lower())[:_MAX_NAME].strip("-") or "script"
