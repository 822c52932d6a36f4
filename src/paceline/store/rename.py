"""Gives a run another name."""

import re

from paceline.errors import StoreError
from paceline.store.paths import RunPaths
from paceline.store.remove import check_removable

_NAME = re.compile(r"[a-z0-9-]{1,64}")


def rename_run(paths: RunPaths, name: str) -> RunPaths:
    """Rename the directory of a run that is not being made. The name must be free."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"'{name}' cannot be the name of a run: use 1 to 64 lowercase letters, digits and hyphens")
    target = RunPaths(paths.runs / name)
    if target.directory.exists():
        raise StoreError(f"there is a run {name} already: choose another name")
    check_removable(paths)
    try:
        paths.directory.rename(target.directory)
    except OSError as error:
        raise StoreError(f"run {paths.id} cannot be renamed: {error.strerror or error}") from None
    return target
