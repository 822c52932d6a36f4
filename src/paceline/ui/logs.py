"""The end of a task's log, for the page."""

import os
from typing import Any

from paceline.errors import StoreError, printable
from paceline.store.paths import RunPaths
from paceline.store.regular_file import open_regular

_SHOWN_BYTES = 64 * 1024


def log_tail(paths: RunPaths, task: str) -> dict[str, Any]:
    """The names of all logs, and the end of that of one task, as printable text."""
    try:
        names = sorted(entry.name.removesuffix(".log") for entry in paths.logs.iterdir() if entry.suffix == ".log")
    except OSError:
        names = []
    if not task:
        return {"tasks": names, "text": ""}
    if task not in names:  # Compared, and never used as a path before that.
        raise StoreError(f"run {paths.id} has no log of '{task}'")
    try:
        with open_regular(paths.log(task)) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _SHOWN_BYTES))
            text = file.read(_SHOWN_BYTES).decode(errors="replace")
    except OSError as error:
        raise StoreError(f"the log of {task} cannot be read: {error.strerror or error}") from None
    return {"tasks": names, "text": printable(text), "shortened": size > _SHOWN_BYTES}
