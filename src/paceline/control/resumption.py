"""From where a run goes on: the last checkpoint that is whole, and how far each worker had come by then."""

from pathlib import Path

import msgspec
import polars as pl

from paceline.errors import StoreError
from paceline.store import tables
from paceline.store.journal import read
from paceline.store.paths import RunPaths
from paceline.train.checkpoint import update_of


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Where training goes on. The default is its beginning."""

    checkpoint: str | None = None
    update: int = 0
    steps: dict[str, int] = {}
    """Steps of each worker that are in the checkpoint's values."""
    trained_s: float = 0.0
    run: str | None = None
    """The run that is continued, if it is another."""


def last_checkpoint(paths: RunPaths) -> tuple[Path, int] | None:
    """The newest that can be read, and its update; a damaged one is passed over."""
    for path in paths.checkpoints_left():
        try:
            return path, update_of(path)
        except StoreError:
            continue
    return None


def steps_until(steps: pl.DataFrame, update: int) -> dict[str, int]:
    """How many steps each worker had made by an update; one made again after a restart counts once."""
    until = steps.filter((pl.col("kind") == "step") & (pl.col("update") <= update))
    return dict(until.group_by("task").agg(pl.col("step").n_unique()).iter_rows())


def steps_so_far(paths: RunPaths) -> pl.DataFrame:
    """Of a run that is under way."""
    return tables.build(read(paths.journal))[0]
