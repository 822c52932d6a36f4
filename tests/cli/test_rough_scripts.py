"""Scripts that behave badly: the run has the right status and one clear line, and nothing of it is left."""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from contracts.golden import json_lines
from support.script_runs import STEPS, launch, log

MARK = "ROUGH_SCRIPT_MARK"


def processes_with(mark: str) -> list[int]:
    """Processes that have the environment variable of a test."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def marked_launch(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`launch`, after which no process of the run may be left."""
    done = launch(folder, script, *options, environment={**os.environ, MARK: str(folder)})
    assert processes_with(str(folder)) == []
    return done


@pytest.mark.slow
def test_a_module_that_hangs_at_import_is_named_in_the_stacks(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(1000)\n")
    done = marked_launch(tmp_path, "import slow_module\n", "--json", "--layout", "ww", "--stall-limit", "3s")
    (result,) = json_lines(done)
    assert (done.returncode, result["status"]) == (1, "failed")
    assert "no step" in result["reason"] or "no progress" in result["reason"]
    stacks = (tmp_path / result["dir"] / "logs" / "stacks.txt").read_text()
    assert stacks.count("slow_module.py") >= 2


@pytest.mark.slow
def test_a_flood_of_output_neither_blocks_the_script_nor_fills_the_disk(tmp_path: Path) -> None:
    flood = "for _ in range(100):\n    print('x' * 1_000_000)\n"
    (result,) = json_lines(launch(tmp_path, flood + STEPS, "--json", arguments=("20",)))
    assert (result["status"], result["updates"]) == ("ok", 20)
    assert (tmp_path / result["dir"] / "logs" / "w0.log").stat().st_size < 70_000_000


def test_children_that_a_script_forks_are_ended_with_it(tmp_path: Path) -> None:
    script = STEPS + "\nimport os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        time.sleep(1000)\n"
    (result,) = json_lines(marked_launch(tmp_path, script, "--json"))
    assert (result["status"], result["updates"]) == ("ok", 20)


@pytest.mark.slow
def test_a_script_that_fails_leaves_none_of_its_children(tmp_path: Path) -> None:
    script = STEPS + (
        "\nimport subprocess, sys\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nsys.exit(1)\n"
    )
    done = marked_launch(tmp_path, script, "--json", "--layout", "ww")
    (result,) = json_lines(done)
    assert (done.returncode, result["status"]) == (1, "failed")
    assert "train.py exited with code 1" in result["reason"]


def test_a_script_that_ends_its_process_at_once_is_failed(tmp_path: Path) -> None:
    done = marked_launch(tmp_path, STEPS + "\nimport os\nos._exit(5)\n", "--json")
    (result,) = json_lines(done)
    assert (done.returncode, result["status"]) == (1, "failed")
    assert "exited with code 5" in result["reason"]


OWN_RANKS = """
import torch.multiprocessing as mp

def rank(index):
    print("rank", index)

if __name__ == "__main__":
    mp.spawn(rank, nprocs=2)
"""


@pytest.mark.slow
def test_a_script_that_spawns_its_own_ranks_is_told_what_to_do(tmp_path: Path) -> None:
    done = marked_launch(tmp_path, OWN_RANKS, "--json")
    (result,) = json_lines(done)
    assert result["status"] == "failed"
    assert "starts ranks of its own" in result["reason"]
    assert "rank 1" in log(tmp_path)


LAUNCHERS = {
    "torch.distributed.run": "'--nproc-per-node=2'",
    "accelerate.commands.launch": "'--cpu', '--num_processes=1'",
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_inside_of_a_script_is_told_what_to_do(launcher: str, tmp_path: Path) -> None:
    if find_spec(launcher.partition(".")[0]) is None:
        pytest.skip(f"{launcher} is not installed")
    (tmp_path / "inner.py").write_text("import os\nprint('inner rank', os.environ.get('RANK', '0'))\n")
    call = f"[sys.executable, '-m', '{launcher}', {LAUNCHERS[launcher]}, 'inner.py']"
    done = marked_launch(tmp_path, f"import subprocess, sys\nsubprocess.run({call}, check=True)\n", "--json")
    (result,) = json_lines(done)
    assert result["status"] == "failed"
    assert "starts ranks of its own" in result["reason"], done.stderr
    assert "inner rank 0" in log(tmp_path)


def test_a_program_named_like_a_launcher_counts_as_one(tmp_path: Path) -> None:
    """The quick twin of the test above: what the program does is not looked at."""
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "torchrun").chmod(0o755)
    done = marked_launch(tmp_path, "import subprocess\nsubprocess.run(['./torchrun', 'inner.py'])\n", "--json")
    (result,) = json_lines(done)
    assert "starts ranks of its own" in result["reason"]
