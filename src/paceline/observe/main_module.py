"""Runs a script or a module in this process as `python` would: as __main__, with its own sys.argv and sys.path."""

import builtins
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def run_script(path: Path, name: str, arguments: Sequence[str]) -> None:
    """Run a file; `name` is the path that the user gave, which becomes sys.argv[0]."""
    loader = SourceFileLoader("__main__", str(path))
    main = _new_main()
    main.__file__, main.__loader__ = str(path), loader
    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, str(path.parent))
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, main.__dict__)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as `python -m` does."""
    _new_main()
    sys.argv[:] = ["-m", *arguments]
    sys.path.insert(0, os.getcwd())
    # Private, but it is what `python -m` itself calls; the public run_module leaves another __main__ in place.
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _new_main() -> ModuleType:
    """Replace __main__, which is the process of the task, by an empty module."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main
