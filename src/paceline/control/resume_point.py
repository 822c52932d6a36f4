"""Where a run continues: the last readable checkpoint, and the number of steps of each worker that it includes."""

from pathlib import Path

import polars as pl

from paceline.analyze.load import load_result
from paceline.errors import StoreError
from paceline.store import tables
from paceline.store.header import ResumePoint
from paceline.store.journal import read_journal
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.train.checkpoint import update_of


def resume_point_of(paths: RunPaths) -> ResumePoint:
    """Where a stored run can be continued; StoreError if it cannot."""
    result = load_result(paths)
    if result.status not in ("aborted", "failed"):
        raise StoreError(
            f"run {paths.id} ended with status {result.status}: only failed or aborted runs can be resumed"
        )
    found = last_checkpoint(paths)
    if not found:
        raise StoreError(f"run {paths.id} has no checkpoint to resume from: start runs with --checkpoint-every")
    path, update = found
    run = StoredRun(paths)
    before = run.header.resumed or ResumePoint()
    return ResumePoint(
        checkpoint=str(path.absolute()),
        update=update,
        steps=steps_until(run.steps, update, before.steps),
        trained_s=result.train_s + before.trained_s,
        run=paths.id,
    )


def last_checkpoint(paths: RunPaths) -> tuple[Path, int] | None:
    """The newest readable checkpoint and its update; damaged files are skipped."""
    for path in paths.checkpoints_newest_first():
        try:
            return path, update_of(path)
        except StoreError:
            continue
    return None


def steps_until(steps: pl.DataFrame, update: int, before: dict[str, int]) -> dict[str, int]:
    """Number of steps of each worker up to `update`, plus `before`, its steps in the runs that this one continues.

    A step repeated after a restart counts once.
    """
    until = steps.filter((pl.col("kind") == "step") & (pl.col("update") <= update))
    made = dict(until.group_by("task").agg(pl.col("step").n_unique()).iter_rows())
    return {task: made.get(task, 0) + before.get(task, 0) for task in {*made, *before}}


def steps_so_far(paths: RunPaths) -> pl.DataFrame:
    """The steps that a run in progress has recorded so far, from its journal; for a restart inside the run."""
    return tables.build_tables(read_journal(paths.journal))[0]
