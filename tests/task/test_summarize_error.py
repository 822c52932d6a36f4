import pytest

from paceline.errors import RunError
from paceline.task.summarize_error import summarize_error

GATHER = """Graph execution error:

Detected at node GatherV2 defined at (most recent call last):
  File "/home/me/own.py", line 6, in <module>

  File "/home/me/own.py", line 5, in f

indices = 5 is not in [0, 2)
\t [[{{node GatherV2}}]] [Op:__inference_f_11]"""
LOST = """Graph execution error:

From /job:ps/replica:0/task:0:
Socket closed [Op:__inference_step_7]"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(GATHER), "ValueError: indices = 5 is not in [0, 2)"),
        (OSError(LOST), "OSError: From /job:ps/replica:0/task:0: Socket closed"),
        (OSError("{{function_node __inference_<lambda>_92}} Collective ops"), "OSError: Collective ops"),
        (ValueError("Graph execution error:"), "ValueError: Graph execution error:"),
        (ValueError("no\nsuch thing"), "ValueError: no such thing"),
        (RunError("two servers for one value"), "two servers for one value"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 300),
    ],
)
def test_the_line_says_what_went_wrong_and_not_where_in_the_graph(error: Exception, line: str) -> None:
    assert summarize_error(error) == line
