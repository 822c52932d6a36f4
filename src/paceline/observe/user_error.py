"""The error that ended a user's script, as one line and as a traceback that begins in the user's code."""

import os
import traceback
from pathlib import Path

from paceline.errors import ScriptError, message_of, one_line, shorten
from paceline.train.context import ScriptJob
from paceline.user_files import CELL_PREFIX

_OWN = os.path.dirname(os.path.abspath(__file__))
"""The folder of this package, whose frames are left out."""
_MAX_LENGTH = 300


def script_error(error: BaseException, script: ScriptJob, path: Path) -> ScriptError:
    """An error whose text is the one line for the user: the script's own error, with the line of the script."""
    if isinstance(error, SystemExit):
        return ScriptError(_exit_line(error, script), "")
    if isinstance(error, KeyboardInterrupt):
        return ScriptError("the script was interrupted by a signal", "")
    summary = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in summary.stack if not _is_own(frame.filename)]
    while frames and frames[0].filename.startswith("<frozen"):
        del frames[0]
    summary.stack = traceback.StackSummary.from_list(frames)
    where = next((f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames) if _is_users(f, path)), "")
    line = one_line(shorten(message_of(error), _MAX_LENGTH))
    text = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return ScriptError(f"{text} ({where})" if where else text, shorten("".join(summary.format())))


def _is_own(filename: str) -> bool:
    return filename.startswith(_OWN) or filename.endswith("runpy.py") or filename == "<frozen runpy>"


def _is_users(frame: traceback.FrameSummary, path: Path) -> bool:
    """Whether a frame is in the script or beside it, and not in an installed package."""
    inside = frame.filename.startswith((str(path.parent), os.getcwd(), CELL_PREFIX))
    return inside and "site-packages" not in frame.filename


def _exit_line(error: SystemExit, script: ScriptJob) -> str:
    if isinstance(error.code, int):
        return f"{script.target} exited with code {error.code}"
    return f"{script.target} exited with code 1: {one_line(shorten(str(error.code), _MAX_LENGTH))}"
