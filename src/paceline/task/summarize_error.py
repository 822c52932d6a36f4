"""Summarizes the exception that ended a task as one line for the user."""

import re

from paceline.errors import STEP_NOTE, PacelineError, message_of, one_line, shorten

_MAX_LENGTH = 300
_MAX_SEARCHED_LENGTH = 100_000
"""Far above a message of TensorFlow; a longer one has no graph locations, and searching it would take seconds."""
_NOISE = re.compile(
    r"Graph execution error:|\d+ root error\(s\) found|Detected at node .* defined at|File \".*\", line \d+|"
    r"<stack traces unavailable>|\[\[\{\{node|Original stack trace|\(\d+\) \w+:\s*$"
)
"""Lines that TensorFlow adds before and after the actual message: where in the graph the error was, and which code
built that part of the graph."""
_FUNCTION_NODE = re.compile(r"\{\{function_node \S+\}\}\s*")
_OP_SUFFIX = re.compile(r"\s*(\[\[\{\{node .*|\[Op:\w+\])\s*$")


def summarize_error(error: BaseException) -> str:
    """The message of the error without TensorFlow's graph locations; with the exception's type unless it is ours."""
    if isinstance(error, SystemExit):
        return f"the code of the workload calls sys.exit({message_of(error)}): remove the call, or raise an exception"
    text = message_of(error)
    if len(text) <= _MAX_SEARCHED_LENGTH:
        text = _without_graph_locations(text)
    line = one_line(shorten(text, _MAX_LENGTH))
    return line if isinstance(error, PacelineError) else f"{type(error).__name__}: {line}"


def step_of(error: BaseException) -> str:
    """` (in step 12 with inputs float32 (100, 3), target int64 (100,))`; empty if the error was not in a step."""
    notes = [note for note in getattr(error, "__notes__", ()) if str(note).startswith(STEP_NOTE)]
    return f" ({one_line(shorten(notes[0], _MAX_LENGTH))})" if notes else ""


def _without_graph_locations(text: str) -> str:
    text = _FUNCTION_NODE.sub("", text)
    if "Graph execution error" in text or "{{node" in text:
        lines = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line.strip())]
        text = " ".join(_OP_SUFFIX.sub("", line) for line in lines) or text
    return " ".join(text.split())
