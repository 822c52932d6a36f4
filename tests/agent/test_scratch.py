"""The private directory of an agent is removed when the agent has ended, however it ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.agent.scratch import make_scratch
from paceline.errors import RunError
from paceline.process_marks import AGENT_MARK, marked_processes, new_mark
from support.live_run import wait_for

AGENT = """
import sys
from paceline.agent.scratch import make_scratch, private_folders
scratch = make_scratch(sys.argv[1])
print(*private_folders(scratch, ["SOME_HOME"]).values(), flush=True)
sys.stdin.read()
"""


def test_the_directory_of_a_killed_agent_is_removed(tmp_path: Path) -> None:
    mark = new_mark()
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={AGENT_MARK: mark},
    )
    with agent:
        assert agent.stdout
        folders = [Path(folder) for folder in agent.stdout.readline().split()]
        (scratch,) = tmp_path.iterdir()
        assert [folder.parent for folder in folders] == [scratch, scratch]
        assert scratch.stat().st_mode & 0o777 == 0o700
        (folders[0] / "left").touch()

        def marked() -> list[int]:
            return [process.pid for process in marked_processes(AGENT_MARK, mark)]

        # The process that removes the directory is not killed with the other processes of the agent.
        wait_for(lambda: marked() == [agent.pid], "only the agent has its mark")
        agent.kill()
    wait_for(lambda: not list(tmp_path.iterdir()), "the directory is removed")


def test_a_scratch_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(
        RunError, match=f"cannot make a directory in {missing}: No such file or directory: name another"
    ):
        make_scratch(str(missing))
