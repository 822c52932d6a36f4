"""A table of steps that is read in parts gives the same result as one that is read at once."""

import shutil
from pathlib import Path

import pytest

from paceline.analyze.load import load_result
from paceline.store import run as stored_run
from paceline.store.paths import RunPaths
from paceline.store.result import Result

RUNS = sorted((Path(__file__).parent / "runs").iterdir())


def computed_again(run: Path, directory: Path) -> Result:
    paths = RunPaths(Path(shutil.copytree(run, directory)))
    paths.result.unlink()
    return load_result(paths)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_result_does_not_depend_on_the_size_of_the_parts(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for tables of an older version, which lack a column."""
    whole = computed_again(run, tmp_path / "whole")
    monkeypatch.setattr(stored_run, "_ROWS_AT_ONCE", 10)
    monkeypatch.setattr(stored_run, "_STEPS_PER_BUCKET", 2)
    in_parts = computed_again(run, tmp_path / "in-parts")
    assert (in_parts.updates, in_parts.examples, in_parts.total_s) == (whole.updates, whole.examples, whole.total_s)
    assert in_parts.first_step_s == whole.first_step_s
    assert in_parts.verdict.cause == whole.verdict.cause
    for worker, same in zip(in_parts.workers, whole.workers, strict=True):
        assert worker.phases == pytest.approx(same.phases, abs=2e-6)
        assert (worker.steps, worker.staleness) == (same.steps, same.staleness)
