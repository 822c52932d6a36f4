"""The field table of a record, and what is derived from it."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from paceline.recording.layout import (
    FIELDS,
    HEADER,
    OFFSETS,
    PHASE_NAMES,
    RECORD,
    RECORD_BYTES,
    STEP_PHASES,
    TIMED_NAMES,
    RecordKind,
    StepRecord,
    parse_header,
    phase_fields,
)
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder, end_step_source
from paceline.recording.rows import RECORD_DTYPE, as_written
from paceline.store.tables import STEPS_SCHEMA


def test_numpy_and_struct_agree_on_where_each_field_lies() -> None:
    values = range(1, len(FIELDS) + 1)
    (record,) = as_written(RECORD.pack(*values))
    assert RECORD_DTYPE.itemsize == RECORD_BYTES == RECORD.size
    for field, value in zip(FIELDS, values, strict=True):
        if field.phase is None:
            assert record[field.name] == value
    times = [OFFSETS[name] + 1 for kind in STEP_PHASES for name in phase_fields(kind)]
    assert record["phases"].ravel().tolist() == times


def test_every_field_has_a_meaning_and_every_phase_a_start_and_an_end() -> None:
    assert all(field.meaning.endswith(".") for field in FIELDS)
    assert STEP_PHASES == (
        RecordKind.PULL, RecordKind.COMPUTE, RecordKind.PUSH, RecordKind.WAIT, RecordKind.FORWARD, RecordKind.BACKWARD,
        RecordKind.EXCHANGE, RecordKind.OPTIMIZER, RecordKind.FUSED,
    )  # fmt: skip
    for kind in STEP_PHASES:
        assert phase_fields(kind) == (f"{kind.name.lower()}_start_ns", f"{kind.name.lower()}_end_ns")


def test_phase_names_are_those_of_stored_runs_in_the_order_of_the_charts() -> None:
    assert PHASE_NAMES == (
        "data", "pull", "forward", "backward", "compute", "push", "exchange", "wait", "optimizer", "eval", "checkpoint",
    )  # fmt: skip
    assert (*PHASE_NAMES, "fused") == TIMED_NAMES


def test_parquet_columns_are_those_of_runs_stored_before() -> None:
    assert list(STEPS_SCHEMA.items()) == [
        ("task", pl.String), ("host", pl.String), ("kind", pl.String), ("step", pl.UInt32), ("update", pl.UInt32),
        ("t_s", pl.Float64), ("duration_s", pl.Float64), ("loss", pl.Float32), ("accuracy", pl.Float32),
        ("staleness", pl.Int32), ("traced", pl.Boolean), ("final", pl.Boolean), ("examples", pl.UInt32),
        ("micro_batches", pl.UInt32), ("undone", pl.Boolean),
    ]  # fmt: skip


def test_end_step_stores_every_field_once() -> None:
    source = end_step_source()
    for word, field in enumerate(FIELDS):
        view = "floats" if field.is_float else "words"
        assert source.count(f"{view}[at + {word}] = ") == 1
    assert f"at + {len(FIELDS)}] = " not in source


RANGES = {
    "u1": st.integers(0, 255),
    "<u8": st.integers(0, 2**63 - 1),
    "<i8": st.integers(-(2**63), 2**63 - 1),
    "<f8": st.floats(),
}
whole_records = st.builds(StepRecord, **{field.name: RANGES[field.stored] for field in FIELDS})


@given(whole_records)
def test_end_step_writes_what_was_set_by_name(record: StepRecord) -> None:
    """All fields, so that none is written to the place of another."""
    with tempfile.TemporaryDirectory() as folder:
        recorder, reader = Recorder(Path(folder) / "r"), RecordReader(Path(folder) / "r")
        recorder.current = replace(record)
        recorder.end_step(record.end_ns, record.update, record.loss, record.staleness)
        (found,) = as_written(reader.new())
        recorder.close()
    for field in FIELDS:
        if field.phase is None:
            expected, value = getattr(record, field.name), found[field.name]
            assert value == expected or (math.isnan(expected) and np.isnan(value))
    expected = [[getattr(record, name) for name in phase_fields(kind)] for kind in STEP_PHASES]
    assert found["phases"].tolist() == expected


def test_a_header_of_another_version_or_cut_short_is_none() -> None:
    good = HEADER.pack(b"PLREC06\n", RECORD_BYTES, 8, 0)
    assert parse_header(good) is not None
    assert parse_header(good[:-1]) is None
    assert parse_header(good.replace(b"06", b"05")) is None
