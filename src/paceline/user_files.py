"""Makes the file of a user's workload importable by name, also in the processes that its code starts.

A process that `multiprocessing` spawns imports the modules of the functions it is given. The file `my_model.py` is the
module `paceline.user_files.my_model`, so importing it first imports this module, which finds the file: its path is in
an environment variable that child processes inherit.
"""

import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__path__: list[str] = []
"""Having a path makes this module a package for the import system. It is empty: `_Finder` finds the submodules."""
_VARIABLE = "PACELINE_USER_FILES"
CELL_PREFIX = "cell-"
"""The name of a notebook cell in tracebacks begins with this; a hash of the source of the cell follows."""


def register(path: Path) -> str:
    """The name under which this file can be imported, from now on and in processes that are started later."""
    name = f"{__name__}." + re.sub(r"\W", "_", path.stem)
    os.environ[_VARIABLE] = json.dumps({**_paths(), name: str(path.absolute())})
    return name


def _paths() -> dict[str, str]:
    """Path of each file, by the name of its module."""
    paths: dict[str, str] = json.loads(os.environ.get(_VARIABLE, "{}"))
    return paths


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        path = _paths().get(fullname)
        return importlib.util.spec_from_file_location(fullname, path) if path else None


sys.meta_path.append(_Finder())
