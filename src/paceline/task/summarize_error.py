"""What an error of a task comes to, in a line."""

import re

from paceline.errors import PacelineError, one_line

_LONGEST = 300
_NOISE = re.compile(
    r"Graph execution error:|\d+ root error\(s\) found|Detected at node .* defined at|File \".*\", line \d+|"
    r"<stack traces unavailable>|\[\[\{\{node|Original stack trace|\(\d+\) \w+:\s*$"
)
"""Lines that TensorFlow puts before and after what went wrong: where in the graph, with the code that made it."""
_FUNCTION = re.compile(r"\{\{function_node \S+\}\}\s*")
_TAIL = re.compile(r"\s*(\[\[\{\{node .*|\[Op:\w+\])\s*$")


def summarize_error(error: BaseException) -> str:
    text = _FUNCTION.sub("", str(error))
    if "Graph execution error" in text or "{{node" in text:
        told = [_TAIL.sub("", line) for line in text.splitlines() if line.strip() and not _NOISE.match(line.strip())]
        text = " ".join(told) or text
    line = one_line(text)[:_LONGEST]
    return line if isinstance(error, PacelineError) else f"{type(error).__name__}: {line}"
