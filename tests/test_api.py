"""paceline.run as a Python function. mypy checks this file, too, and reports a `type: ignore` that is not needed."""

import inspect
from pathlib import Path

import pytest

import paceline
from paceline.errors import SpecError
from paceline.spec.experiment import OPTIONS


def test_every_option_is_a_keyword_with_its_default() -> None:
    parameters = dict(inspect.signature(paceline.run).parameters)
    assert parameters.pop("workload").default is inspect.Parameter.empty
    for name in ("unknown", "check", "progress"):
        del parameters[name]
    assert parameters.keys() == OPTIONS.keys() - {"workload"}
    for name, parameter in parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert name in ("stop", "fault") or parameter.default == OPTIONS[name].default


def test_docstring_describes_every_option() -> None:
    text = " ".join((paceline.run.__doc__ or "").split())
    assert all(f"{name}: {option.help}" in text for name, option in OPTIONS.items() if name != "workload")
    assert all(f"{name}: " in text for name in ("workload", "check", "progress"))


def test_launch_has_the_options_of_the_command() -> None:
    parameters = inspect.signature(paceline.launch).parameters
    launched = {name for name, option in OPTIONS.items() if option.launch}
    own = {"script", "arguments", "module", "param", "check", "progress", "unknown"}
    assert parameters.keys() == launched | own
    text = " ".join((paceline.launch.__doc__ or "").split())
    assert all(f"{name}: {OPTIONS[name].help}" in text for name in launched)


def test_invalid_arguments_are_refused_by_mypy_and_at_run_time(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with pytest.raises(SpecError, match="did you mean batch"):
        paceline.run("logreg", bach=1, runs=runs)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="batch 'ten': must be a whole number"):
        paceline.run("logreg", batch="ten", runs=runs)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="repeat"):
        paceline.run("logreg", repeat=[1, 2], runs=runs)  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_list_of_values_makes_a_sweep(tmp_path: Path) -> None:
    results = paceline.run("logreg", batch=[10, 100], stop={"steps": 5}, runs=str(tmp_path / "runs"))
    assert [result.batch for result in results] == [10, 100]


def test_public_names_are_listed() -> None:
    assert sorted(dir(paceline)) == sorted([*paceline.__all__, "__version__"])
    assert all(hasattr(paceline, name) for name in paceline.__all__)
