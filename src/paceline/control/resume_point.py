"""From where a run goes on: the last checkpoint that is whole, and how far each worker had come by then."""

from pathlib import Path

import msgspec
import polars as pl

from paceline.analyze.load import load_result
from paceline.errors import StoreError
from paceline.store import tables
from paceline.store.journal import read
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.train.checkpoint import update_of


class ResumePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where training goes on. The default is its beginning."""

    checkpoint: str | None = None
    update: int = 0
    steps: dict[str, int] = {}
    """Steps of each worker that are in the checkpoint's values."""
    trained_s: float = 0.0
    run: str | None = None
    """The run that is continued, if it is another."""


def resume_point_of(paths: RunPaths) -> ResumePoint:
    """Where a stored run can go on; StoreError in a line if it cannot."""
    result = load_result(paths)
    if result.status not in ("aborted", "failed"):
        raise StoreError(f"run {paths.id} ended {result.status}: only one that failed or was aborted can be resumed")
    found = last_checkpoint(paths)
    if not found:
        raise StoreError(f"run {paths.id} left no checkpoint to go on from: make runs with --checkpoint-every")
    path, update = found
    run = StoredRun(paths)
    before = (run.first("created") or {}).get("resumed") or {}
    return ResumePoint(
        checkpoint=str(path.absolute()),
        update=update,
        steps=steps_until(run.steps, update, before.get("steps", {})),
        trained_s=result.train_s + before.get("trained_s", 0.0),
        run=paths.id,
    )


def last_checkpoint(paths: RunPaths) -> tuple[Path, int] | None:
    """The newest that can be read, and its update; a damaged one is passed over."""
    for path in paths.checkpoints_left():
        try:
            return path, update_of(path)
        except StoreError:
            continue
    return None


def steps_until(steps: pl.DataFrame, update: int, before: dict[str, int]) -> dict[str, int]:
    """How many steps each worker had made by an update, those in the run that this one continues included.

    One made again after a restart counts once.
    """
    until = steps.filter((pl.col("kind") == "step") & (pl.col("update") <= update))
    made = dict(until.group_by("task").agg(pl.col("step").n_unique()).iter_rows())
    return {task: made.get(task, 0) + before.get(task, 0) for task in {*made, *before}}


def steps_so_far(paths: RunPaths) -> pl.DataFrame:
    """Of a run that is under way."""
    return tables.build(read(paths.journal))[0]
