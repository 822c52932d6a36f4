"""The tables of a journal, whole and in memory."""

from pathlib import Path

import polars as pl

from paceline.store.journal import JournalReader
from paceline.store.tables import SAMPLES_SCHEMA, STEPS_SCHEMA, sample_batches, step_batches


def tables_of(journal: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables (steps, samples) of a journal."""
    reader = JournalReader(journal)
    return (
        pl.concat([pl.DataFrame(schema=STEPS_SCHEMA), *step_batches(reader, {})]),
        pl.concat([pl.DataFrame(schema=SAMPLES_SCHEMA), *sample_batches(reader)]),
    )
