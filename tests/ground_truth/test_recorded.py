"""The analysis of recorded runs finds the bottleneck that was created on purpose; no processes are started."""

import shutil
from pathlib import Path

import pytest

from analyze.bottleneck.test_judge import assert_consistent
from ground_truth.cases import BY_NAME, CASES
from ground_truth.run import began_in_time
from paceline.analyze.summary import summarize
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun

RECORDED = sorted(path for path in Path(__file__).with_name("recorded").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_bottleneck_of_a_recorded_run_is_the_one_that_was_created(folder: Path, tmp_path: Path) -> None:
    case = BY_NAME[folder.name]
    shutil.copytree(folder, tmp_path / folder.name)
    verdict = summarize(StoredRun(RunPaths(tmp_path / folder.name))).verdict
    assert_consistent(verdict)
    assert (verdict.cause, case.where in verdict.where) == (case.cause, True), verdict
    assert began_in_time(case, verdict), verdict.episodes


def test_every_cause_has_a_recorded_run() -> None:
    assert {BY_NAME[folder.name].cause for folder in RECORDED} >= {case.cause for case in CASES}
