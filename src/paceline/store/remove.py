"""Deletes runs."""

import shutil

import filelock

from paceline.errors import StoreError
from paceline.store.paths import RunPaths


def check_removable(paths: RunPaths) -> None:
    """Raise StoreError if a run must not be deleted: because it is being made, or is a link to somewhere else."""
    if paths.directory.is_symlink():
        raise StoreError(f"{paths.directory} is a link to a run somewhere else: delete the link, or the run over there")
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise StoreError(f"run {paths.id} is being made: stop it first, e.g. with Ctrl-C") from None
    except OSError as error:
        raise StoreError(f"run {paths.id} cannot be deleted: {error.strerror or error}") from None
    lock.release()
    paths.lock.unlink(missing_ok=True)


def remove_run(paths: RunPaths) -> None:
    """Delete the directory of a run. Links in it are deleted, not what they lead to."""
    check_removable(paths)
    try:
        # Without this file the directory is not a run: no command reads the rest if it cannot be deleted.
        paths.spec.unlink()
        shutil.rmtree(paths.directory)
    except OSError as error:
        raise StoreError(f"{paths.directory} cannot be deleted completely: {error.strerror or error}") from None
