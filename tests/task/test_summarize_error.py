"""The line that a user sees for an exception of a task."""

import pytest

from paceline.errors import RunError
from paceline.task.summarize_error import summarize_error

GATHER_ERROR = """Graph execution error:

Detected at node GatherV2 defined at (most recent call last):
  File "/home/me/own.py", line 6, in <module>

  File "/home/me/own.py", line 5, in f

indices = 5 is not in [0, 2)
\t [[{{node GatherV2}}]] [Op:__inference_f_11]"""
SOCKET_CLOSED = """Graph execution error:

From /job:ps/replica:0/task:0:
Socket closed [Op:__inference_step_7]"""


class Unprintable(Exception):
    def __str__(self) -> str:
        return str(1 / 0)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(GATHER_ERROR), "ValueError: indices = 5 is not in [0, 2)"),
        (OSError(SOCKET_CLOSED), "OSError: From /job:ps/replica:0/task:0: Socket closed"),
        (OSError("{{function_node __inference_<lambda>_92}} Collective ops"), "OSError: Collective ops"),
        (ValueError("Graph execution error:"), "ValueError: Graph execution error:"),
        (ValueError("no\nsuch thing"), "ValueError: no such thing"),
        (RunError("two servers for one value"), "two servers for one value"),
        (ValueError("x" * 5000), f"ValueError: {'x' * 150} … [4,700 characters left out] … {'x' * 150}"),
        (ValueError("y" * 50_000_000), f"ValueError: {'y' * 150} … [49,999,700 characters left out] … {'y' * 150}"),
        (Unprintable(), "Unprintable: (its message cannot be shown: __str__ raises ZeroDivisionError)"),
        (SystemExit(3), "the code of the workload calls sys.exit(3): remove the call, or raise an exception"),
    ],
)
def test_the_line_has_the_message_without_graph_locations(error: BaseException, line: str) -> None:
    assert summarize_error(error) == line
