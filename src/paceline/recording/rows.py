"""Turns records as they were written into rows: one row for each phase, step and evaluation."""

import numpy as np

from paceline.recording.layout import FIELDS, OFFSETS, RECORD_BYTES, STEP_PHASES, WORD_BYTES, RecordKind, phase_fields

_PLAIN = [field for field in FIELDS if field.phase is None]
_IN_ROWS = [field for field in FIELDS if field.row is not None]
_PHASES_SHAPE = (len(STEP_PHASES), 2)
_FIRST_PHASE = OFFSETS[phase_fields(STEP_PHASES[0])[0]]

RECORD_DTYPE = np.dtype(
    {
        "names": [*(field.name for field in _PLAIN), "phases"],
        "formats": [*(field.stored for field in _PLAIN), ("<u8", _PHASES_SHAPE)],
        "offsets": [WORD_BYTES * word for word in (*(OFFSETS[field.name] for field in _PLAIN), _FIRST_PHASE)],
        "itemsize": RECORD_BYTES,
    }
)
"""A record as the recorder writes it. `phases` has the start and the end of each of STEP_PHASES."""
ROW_DTYPE = np.dtype(
    [("start_ns", "<u8"), ("duration_ns", "<u8"), *((field.name, field.row) for field in _IN_ROWS)],
)
_CHUNK = 50_000
"""Records that become rows at once: rows of phases that a step does not have take memory until they are dropped."""
_STEP_PHASES = [int(kind) for kind in STEP_PHASES]


def as_written(data: bytes) -> np.ndarray:
    """Records without conversion; an incomplete one at the end is left out."""
    return np.frombuffer(data, RECORD_DTYPE, count=len(data) // RECORD_DTYPE.itemsize)


def of_kind(records: np.ndarray, kind: int) -> np.ndarray:
    """The records of one kind.

    Not a copy if all are of this kind. Mostly all are steps, and copying them takes longer than what is done with them.
    """
    selected = records["kind"] == kind
    return records if selected.all() else records[selected]


def spent_ns(records: np.ndarray) -> np.ndarray:
    """The total time of each kind, by its number, computed without making rows."""
    start = records["start_ns"]
    counted = np.bincount(records["kind"], weights=records["end_ns"] - start, minlength=len(RecordKind))
    total: np.ndarray = counted.astype(float)  # Without records bincount returns integers.
    total[RecordKind.DATA] += (records["data_end_ns"] - start)[_has_data(records)].sum()
    # A sum of times may overflow; the difference of two sums is right all the same.
    sums = records["phases"].sum(axis=0)
    total[_STEP_PHASES] += sums[:, 1] - sums[:, 0]
    return total


def decode(data: bytes) -> np.ndarray:
    """Records as rows (ROW_DTYPE); the rows of a step's phases come before the row of the step."""
    records = as_written(data)
    pieces = [_rows(records[at : at + _CHUNK]) for at in range(0, len(records), _CHUNK)]
    return np.concatenate(pieces) if pieces else np.empty(0, ROW_DTYPE)


def _has_data(records: np.ndarray) -> np.ndarray:
    data_end = records["data_end_ns"]
    has: np.ndarray = (data_end > 0) & (data_end >= records["start_ns"])
    return has


def _rows(records: np.ndarray) -> np.ndarray:
    """The rows of each record: its data phase and its other phases, if it has them, and the record itself."""
    rows = np.empty((len(records), 1 + len(STEP_PHASES) + 1), ROW_DTYPE)
    present = np.ones(rows.shape, bool)
    start, data_end, phases = records["start_ns"], records["data_end_ns"], records["phases"]
    present[:, 0] = _has_data(records)
    present[:, 1:-1] = phases[:, :, 0] > 0
    if not present[:, :-1].any():
        rows, present = rows[:, -1:], present[:, -1:]
    else:
        inner = rows[:, :-1]
        inner["start_ns"][:, 0], inner["duration_ns"][:, 0] = start, data_end - start
        inner["start_ns"][:, 1:], inner["duration_ns"][:, 1:] = phases[:, :, 0], phases[:, :, 1] - phases[:, :, 0]
        for name in ("step", "flags"):
            inner[name] = records[name][:, None]
        inner["kind"] = (RecordKind.DATA, *STEP_PHASES)
        inner["update"], inner["staleness"], inner["loss"], inner["accuracy"] = 0, -1, np.nan, np.nan
        inner["examples"] = inner["micro_batches"] = 0
    own = rows[:, -1]
    own["start_ns"], own["duration_ns"] = start, records["end_ns"] - start
    # The loss of a diverged run may exceed a float32 and becomes infinite; a damaged file may hold any number.
    with np.errstate(over="ignore", invalid="ignore"):
        for field in _IN_ROWS:
            own[field.name] = records[field.name]
    selected: np.ndarray = rows[present]
    return selected
