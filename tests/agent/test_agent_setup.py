"""An agent whose controller is gone before its first message ends by itself."""

import subprocess
import sys

WITH_SHORT_DEADLINE = """
import sys
from paceline.agent import __main__ as agent
agent._SETUP_S = 1
sys.argv[1:] = ["--host", "h1", "--network", "machine"]
agent.main()
"""


def test_agent_that_receives_no_setup_exits() -> None:
    """Its stdin stays open, as that of a connection that is dead without having been closed."""
    agent = subprocess.Popen(
        [sys.executable, "-c", WITH_SHORT_DEADLINE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stderr
    with agent:
        assert agent.wait(60) == 1
        assert agent.stderr.read() == "received no Setup from the controller for 1 s: exiting\n"
