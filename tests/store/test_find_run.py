"""How users name runs, and what is said about runs that are not there or cannot be resumed."""

from pathlib import Path

import pytest

from paceline.control.resume_point import resume_point_of
from paceline.errors import StoreError
from paceline.store.paths import find_run
from report.stored import store_run


def make_run(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "spec.toml").touch()


def test_a_name_is_also_that_of_a_directory_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "renamed")
    assert find_run(Path("runs"), "renamed").directory == Path("renamed")
    make_run(tmp_path / "runs" / "renamed-1")
    assert find_run(Path("runs"), "renamed").directory == Path("runs/renamed-1")
    make_run(tmp_path / "latest")
    assert find_run(Path("runs"), "latest").directory == Path("runs/renamed-1")


def test_runs_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    for number in range(1, 11):
        make_run(tmp_path / f"sw-{number}")
    with pytest.raises(StoreError, match=r"unknown run 'nope': choose from (sw-\d+, ){7}sw-\d+ and 2 more$"):
        find_run(tmp_path, "nope")


def test_a_run_without_an_update_is_to_be_run_again(tmp_path: Path) -> None:
    paths = store_run(tmp_path, steps=0, end=("aborted", "interrupted by the user"))
    with pytest.raises(
        StoreError, match=r"ended before its first update, so there is nothing to resume: run it again$"
    ):
        resume_point_of(paths)


def test_a_run_whose_checkpoints_are_damaged_is_to_be_run_again(tmp_path: Path) -> None:
    paths = store_run(tmp_path, end=("aborted", "interrupted by the user"))
    with pytest.raises(StoreError, match="has no checkpoint to resume from: run it again, and start runs with"):
        resume_point_of(paths)
    paths.checkpoints.mkdir(exist_ok=True)
    paths.checkpoint(100).write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"its only checkpoint is damaged: .*; run it again$"):
        resume_point_of(paths)
