"""Tries to import the frameworks of engines, each in a process of its own: an import that fails may take it along."""

import subprocess
import sys
from collections.abc import Iterable

from paceline.errors import one_line, shorten

_DEADLINE_S = 60.0
_MAX_LENGTH = 300


def import_errors(modules: Iterable[str]) -> dict[str, str]:
    """The modules that cannot be imported, with the reason in one line. All are imported at the same time."""
    # -P: a file in the current directory with the name of a module is not that module.
    processes = {
        module: subprocess.Popen(
            [sys.executable, "-P", "-c", f"import {module}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        for module in dict.fromkeys(modules)
    }
    failed = {module: _why_failed(process) for module, process in processes.items()}
    return {module: reason for module, reason in failed.items() if reason}


def _why_failed(process: "subprocess.Popen[str]") -> str:
    """Why an import failed; empty if it did not."""
    try:
        _, errors = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"the import was not finished after {_DEADLINE_S:.0f} s"
    if process.returncode == 0:
        return ""
    # The last line of a traceback is the exception with its message.
    lines = [line for line in errors.splitlines() if line.strip()]
    if process.returncode < 0:
        return f"the process was ended by signal {-process.returncode}"
    return one_line(shorten(lines[-1] if lines else f"exit code {process.returncode}", _MAX_LENGTH))
