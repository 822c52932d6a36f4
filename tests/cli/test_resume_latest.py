"""`paceline resume latest` chooses a run that can be resumed, or says why there is none."""

from pathlib import Path

import numpy as np
import pytest

from paceline import pipeline
from paceline.cli.main import run_command
from paceline.errors import StoreError
from paceline.store.paths import RunPaths
from paceline.train.checkpoint import TrainingState, encode
from report.stored import store_run


def failed_run(runs: Path, *, checkpoint: bool) -> RunPaths:
    paths = store_run(runs, name="failed", steps=20, end=("failed", "w1 on h2 was killed"))
    if checkpoint:
        paths.checkpoint(10).write_bytes(encode(TrainingState(10, {"weight": np.zeros(2, np.float32)})))
    return paths


def test_the_latest_run_that_can_be_resumed_is_chosen(tmp_path: Path) -> None:
    failed = failed_run(tmp_path, checkpoint=True)
    failed_run(tmp_path, checkpoint=False)
    store_run(tmp_path, name="done", steps=20)
    assert pipeline.latest_resumable(tmp_path).id == failed.id


def test_a_run_that_was_already_resumed_is_not_chosen(tmp_path: Path) -> None:
    failed = failed_run(tmp_path, checkpoint=True)
    later = store_run(tmp_path, name="later", steps=20)
    header, *rest = later.events.read_text().splitlines()
    later.events.write_text("\n".join([header.replace('"resumed":null', f'"resumed":{{"run":"{failed.id}"}}'), *rest]))
    with pytest.raises(StoreError, match=r"no run in .* can be resumed; the latest: run later-1 ended with status ok"):
        pipeline.latest_resumable(tmp_path)


def test_a_finished_run_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_run(tmp_path / "runs", name="done", steps=20)
    assert run_command(["resume", "latest", "--runs", str(tmp_path / "runs")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the latest: run done-1 ended with status ok: only failed or aborted runs can be resumed" in line
    assert run_command(["resume", "latest", "--runs", str(tmp_path / "none")]) == 2
    assert "no runs in" in capsys.readouterr().err
