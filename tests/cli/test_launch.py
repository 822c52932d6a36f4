"""`paceline launch`: a user's own script is started by layout, measured, and ends as it should.

The scripts here report their steps themselves, because loading a framework would take most of the time of the tests.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from contracts.golden import COMMAND, json_lines
from paceline.recording.layout import SHOWN_NAMES
from process_io import read_line
from support.script_runs import STEPS, launch, log

FORK = """
import os
from paceline import observe
observe.step()
if os.fork() == 0:
    observe.step()
    os._exit(0)
os.wait()
observe.step()
"""
VARIABLES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",
    "OMP_NUM_THREADS",
)  # fmt: skip


def test_a_script_is_measured_like_a_workload(tmp_path: Path) -> None:
    done = launch(tmp_path, STEPS, "--layout", "ww", "--json")
    (result,) = json_lines(done)
    assert done.returncode == 0
    assert (result["status"], result["updates"], result["examples"], result["batch"]) == ("ok", 20, 160, 4)
    assert result["workload"] == "train.py"
    for worker in result["workers"]:
        phases = worker["phases"]
        assert worker["steps"] == 20
        assert phases.keys() <= set(SHOWN_NAMES)
        assert phases["data"] >= 0.02
        assert phases["forward"] >= 0.04
    assert result["verdict"]["cause"]
    shown = subprocess.run([*COMMAND, "show", "latest"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "examples/s" in shown.stdout


def test_ranks_get_the_environment_of_torchrun(tmp_path: Path) -> None:
    script = (
        f"import json, os, sys\nprint(json.dumps({{n: os.environ.get(n) for n in {VARIABLES}}}), file=sys.stderr)\n"
    )
    launch(tmp_path, script + STEPS, "--layout", "ww w", "--threads", "1", arguments=("1",))
    ranks = [json.loads(log(tmp_path, task).splitlines()[0]) for task in ("w0", "w1", "w2")]
    shared = {name: {rank[name] for rank in ranks} for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")}
    assert all(len(values) == 1 for values in shared.values())
    assert [(r["RANK"], r["LOCAL_RANK"], r["LOCAL_WORLD_SIZE"], r["GROUP_RANK"]) for r in ranks] == [
        ("0", "0", "2", "0"), ("1", "1", "2", "0"), ("2", "0", "1", "1"),
    ]  # fmt: skip
    assert ranks[0]["WORLD_SIZE"] == "3"
    assert [rank["OMP_NUM_THREADS"] for rank in ranks] == ["1"] * 3
    cluster = json.loads(ranks[1]["TF_CONFIG"])
    assert cluster["task"] == {"type": "worker", "index": 1}
    assert cluster["cluster"]["worker"][0] == f"{ranks[0]['MASTER_ADDR']}:{ranks[0]['MASTER_PORT']}"


def test_parameters_make_a_sweep(tmp_path: Path) -> None:
    done = launch(tmp_path, STEPS, "--param", "n=3,4", "--name", "sweep", "--json", arguments=("{n}",))
    assert [(r["updates"], r["settings"]["param"]) for r in json_lines(done)] == [(3, "n=3"), (4, "n=4")]
    again = launch(tmp_path, STEPS, "--param", "n=3,4", "--name", "sweep", arguments=("{n}",))
    assert again.stderr.count("already done") == 2
    compared = subprocess.run([*COMMAND, "compare", "sweep"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "n=3" in compared.stdout


def test_a_stop_rule_ends_the_script_and_its_cleanup_runs(tmp_path: Path) -> None:
    script = "import atexit\natexit.register(print, 'cleaned up')\n" + STEPS + "\nprint('not reached')\n"
    (result,) = json_lines(launch(tmp_path, script, "--stop", "steps=7", "--json", "--layout", "ww"))
    assert (result["status"], result["updates"]) == ("ok", 7)
    assert result["reached"]["rule"] == "steps=7"
    assert "cleaned up" in log(tmp_path)
    assert "not reached" not in log(tmp_path)


def test_after_the_given_time_all_ranks_end_at_the_same_step(tmp_path: Path) -> None:
    done = launch(tmp_path, STEPS, "--stop", "seconds=0.5", "--json", "--layout", "ww", arguments=("100000",))
    (result,) = json_lines(done)
    assert result["status"] == "ok"
    assert len({worker["steps"] for worker in result["workers"]}) == 1
    assert result["reached"]["rule"] == "seconds=0.5"


def test_output_of_the_first_rank_is_shown_on_request(tmp_path: Path) -> None:
    done = launch(tmp_path, "print('hello from the script')\n" + STEPS, "--echo", arguments=("2",))
    assert done.stderr.count("hello from the script") == 1


FAILURES: dict[str, tuple[str, str]] = {
    "an exception": (
        STEPS + "\ndef fail():\n    raise ValueError('bad shape')\nfail()\n",
        "ValueError: bad shape (train.py:",
    ),
    "an exit code": ("import sys\nsys.exit(3)\n", "train.py exited with code 3"),
    "an exit with a message": ("import sys\nsys.exit('no GPU here')\n", "exited with code 1: no GPU here"),
    "an error at import": ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
    "a syntax error": ("def broken(:\n", "SyntaxError"),
    "no step": ("print('done')\n", "made no step: Paceline sees the steps of torch optimizers"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_script_that_fails_ends_the_run_with_its_own_error(name: str, tmp_path: Path) -> None:
    script, line = FAILURES[name]
    done = launch(tmp_path, script, "--json", "--on-failure", "restart")
    (result,) = json_lines(done)
    assert done.returncode == 1
    assert result["status"] == "failed"
    assert line in result["reason"]
    assert len([incident for incident in result["incidents"] if "restart" in incident["what"]]) == 0
    if "Error" in line:
        assert line.partition(":")[0] in log(tmp_path)
        assert "paceline/observe" not in (result["traceback"] or "")


def test_a_script_that_hangs_is_ended_with_its_stacks(tmp_path: Path) -> None:
    script = "import time\ndef hang_here():\n    time.sleep(1000)\nhang_here()\n"
    done = launch(tmp_path, script, "--json", "--stall-limit", "3s")
    (result,) = json_lines(done)
    assert result["status"] == "failed"
    assert "hang_here" in next((tmp_path / "runs" / "train-1").rglob("stacks*")).read_text()


def test_processes_that_a_script_leaves_behind_are_ended(tmp_path: Path) -> None:
    script = (
        STEPS + "\nimport subprocess\nprint('child', subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)\n"
    )
    done = launch(tmp_path, script, "--json")
    (result,) = json_lines(done)
    assert result["status"] == "ok"
    (line,) = [line for line in log(tmp_path).splitlines() if line.startswith("child")]
    assert not psutil.pid_exists(int(line.split()[1]))


def test_a_forked_child_does_not_write_to_the_records(tmp_path: Path) -> None:
    (result,) = json_lines(launch(tmp_path, FORK, "--json"))
    assert result["updates"] == 2


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    command = [*COMMAND, "launch", "--json", "--layout", "ww", "train.py", "1000000"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr
    while "update" not in (line := process.stderr.readline()):
        assert line, "the run ended too early"
    os.killpg(process.pid, signal.SIGINT)
    result: dict[str, Any] = json.loads(read_line(process))
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert result["status"] == "aborted"
    assert result["updates"] > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["missing.py"], "there is no file missing.py"),
        (["-m", "no_such_module"], "there is no module no_such_module"),
        (["--stop", "loss=0.3", "train.py"], "does not know the loss of a script"),
        (["--param", "bs=1", "train.py"], "param bs is not used"),
        (["--param", "bs", "train.py"], "not of the form name=value"),
        (["--layout", "pw w", "train.py"], "uses no parameter server"),
        (["--stall-limit", "soon", "train.py"], "soon"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(arguments: list[str], line: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    command = [*COMMAND, "launch", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_can_be_repeated_from_its_spec_file(tmp_path: Path) -> None:
    launch(tmp_path, STEPS, "--layout", "ww", arguments=("3",))
    spec = tmp_path / "runs" / "train-1" / "spec.toml"
    command = [*COMMAND, "run", str(spec), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    (result,) = json_lines(done)
    assert (result["status"], result["updates"], result["layout"]) == ("ok", 3, "ww")


def test_an_installed_module_runs_in_the_working_directory(tmp_path: Path) -> None:
    installed, work = tmp_path / "installed", tmp_path / "work"
    (installed / "trainers").mkdir(parents=True)
    work.mkdir()
    (installed / "trainers" / "__init__.py").touch()
    (installed / "trainers" / "fit.py").write_text("import beside\n" + STEPS)
    (work / "beside.py").touch()
    command = [*COMMAND, "launch", "--json", "-m", "trainers.fit", "3"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60, check=False, env=environment)
    (result,) = json_lines(done)
    assert (result["status"], result["updates"]) == ("ok", 3)


def test_without_paceline_launch_the_functions_do_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    subprocess.run([sys.executable, "train.py", "2"], cwd=tmp_path, check=True, timeout=60)
