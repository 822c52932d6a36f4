"""Arguments of `paceline.run` and `paceline.launch` that are not those of a spec file."""

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.errors import RunFailed, SpecError
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload


def no_op() -> None:
    """A function to launch."""


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (7, "workload is an int: give a name"),
        (no_op, "to run a training function, use paceline.launch"),
        ([], "workload is a list"),
        (["logreg", 3], "workload is an int"),
        ("no-such", "unknown workload 'no-such'"),
        (Workload(name="Bad Name", train_examples=1), "the name 'Bad Name' must consist"),
    ],
)
def test_wrong_workload_is_refused(tmp_path: Path, workload: Any, message: str) -> None:
    with pytest.raises(SpecError if "unknown" not in message else paceline.UsageError, match=message):
        paceline.run(workload, runs=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"param": {"lr": [no_op]}}, "param lr has a function as value: must be text, a finite number"),
        ({"param": {"lr": []}}, "param lr: the list of values is empty"),
        ({"param": {"a b": 1}}, "param has the name 'a b'"),
        ({"param": 3}, "param is an int"),
        ({"module": True}, "module=True is for the name of a module"),
        ({"check": "yes"}, "check is 'yes': must be True or False"),
        ({"progress": "bar"}, "progress is 'bar': must be True, False or None"),
        ({"layouts": "w"}, "unknown option 'layouts': did you mean layout"),
        ({"batch": 5}, "batch does not apply to a script"),
    ],
)
def test_wrong_arguments_of_launch_are_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        paceline.launch(no_op, runs=str(tmp_path / "runs"), **fields)
    assert not list((tmp_path / "runs").glob("no_op-*"))


def test_script_that_is_no_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="script is an int: give the path of a script"):
        paceline.launch(3, runs=str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"there is no file missing\.py"):
        paceline.launch("missing.py", runs=str(tmp_path))
    with pytest.raises(SpecError, match="param bs is not used"):
        paceline.launch(__file__, param={"bs": 3}, runs=str(tmp_path))


def test_wrong_recipe_and_change_are_refused(tmp_path: Path) -> None:
    with pytest.raises(paceline.UsageError, match="unknown recipe 'report9'"):
        paceline.reproduce("report9", runs=tmp_path)
    with pytest.raises(SpecError, match="unknown option 'bach': did you mean batch"):
        paceline.reproduce("report1-table4", changes={"bach": 3}, runs=tmp_path)


def test_failed_run_is_raised_with_its_result_unless_unchecked(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    failing: dict[str, Any] = {"lr": 1e38, "stop": "steps=50", "runs": runs}
    with pytest.raises(RunFailed, match=r"run logreg-1 diverged: .*; see .*logreg-1") as error:
        paceline.run("logreg", **failing)
    (result,) = error.value.results
    assert (result.run, result.status) == ("logreg-1", "diverged")
    (unchecked,) = paceline.run("logreg", check=False, **failing)
    assert unchecked.status == "diverged"


def test_model_is_typed_as_a_workload() -> None:
    with pytest.raises(SpecError, match="workload is a Model"):
        paceline.run(Model((2,), ()))  # type: ignore[arg-type]
