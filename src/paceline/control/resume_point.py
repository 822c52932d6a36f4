"""Where a run continues: the last readable checkpoint, and the number of steps of each worker that it includes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline.analyze.load import load_result
from paceline.errors import StoreError
from paceline.store.header import ResumePoint
from paceline.store.journal import JournalReader
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.tables import step_batches
from paceline.train.checkpoint import update_of


def resume_point_of(paths: RunPaths) -> ResumePoint:
    """Where a stored run can be continued; StoreError if it cannot."""
    result = load_result(paths)
    if result.status not in ("aborted", "failed"):
        raise StoreError(
            f"run {paths.id} ended with status {result.status}: only failed or aborted runs can be resumed"
        )
    found = last_checkpoint(paths)
    if not found.path:
        raise StoreError(_no_checkpoint(paths, found.damaged, made_updates=result.updates > 0))
    run = StoredRun(paths)
    before = run.header.resumed or ResumePoint()
    return ResumePoint(
        checkpoint=str(found.path.absolute()),
        update=found.update,
        steps=steps_until(run.step_parts(), found.update, before.steps),
        trained_s=result.train_s + before.trained_s,
        run=paths.id,
        faults=(*before.faults, *(event["what"] for event in run.events if event["event"] == "fault")),
        damaged=found.damaged,
    )


class LastCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The newest checkpoint of a run that can be used."""

    path: Path | None = None
    """None if the run has no usable checkpoint."""
    update: int = 0
    damaged: tuple[str, ...] = ()
    """Why newer checkpoints cannot be used, a line for each."""


def last_checkpoint(paths: RunPaths) -> LastCheckpoint:
    damaged: list[str] = []
    for path in paths.checkpoints_newest_first():
        try:
            return LastCheckpoint(path=path, update=update_of(path), damaged=tuple(damaged))
        except StoreError as error:
            damaged.append(str(error))
    return LastCheckpoint(damaged=tuple(damaged))


def damaged_checkpoint(line: str) -> str:
    """The incident of a checkpoint that cannot be used."""
    return f"a checkpoint is damaged and was skipped: {line}"


def _no_checkpoint(paths: RunPaths, damaged: tuple[str, ...], *, made_updates: bool) -> str:
    if damaged:
        count = f"all {len(damaged)} checkpoints are" if len(damaged) > 1 else "its only checkpoint is"
        return f"run {paths.id} cannot be resumed, because {count} damaged: {'; '.join(damaged)}; run it again"
    if not made_updates:
        return f"run {paths.id} ended before its first update, so there is nothing to resume: run it again"
    return f"run {paths.id} has no checkpoint to resume from: run it again, and start runs with --checkpoint-every"


def steps_until(parts: Iterable[pl.DataFrame], update: int, before: dict[str, int]) -> dict[str, int]:
    """Number of steps of each worker up to `update`, plus `before`, its steps in the runs that this one continues.

    `parts` are those of the table `steps`. Steps that an earlier return to a checkpoint undid do not count.
    """
    numbers: dict[str, list[Any]] = {}
    for part in parts:
        until = part.filter((pl.col("kind") == "step") & (pl.col("update") <= update) & pl.col("undone").not_())
        for (task,), own in until.group_by("task"):
            numbers.setdefault(str(task), []).append(own["step"].to_numpy())
    made = {task: len(np.unique(np.concatenate(own))) for task, own in numbers.items()}
    return {task: made.get(task, 0) + before.get(task, 0) for task in {*made, *before}}


def steps_so_far(paths: RunPaths) -> Iterator[pl.DataFrame]:
    """The steps that a run in progress has recorded so far, from its journal; for a restart inside the run."""
    return step_batches(JournalReader(paths.journal), {})
