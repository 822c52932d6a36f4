"""What a task recorded, as rows: one for each phase, step, evaluation."""

import re

import numpy as np

from paceline.train.recorder import HEAD_FORMAT, INSIDE, INSIDE_FORMAT

_NUMPY = {"Q": "<u8", "I": "<u4", "i": "<i4", "f": "<f4", "B": "u1"}


def _fields(names: str, layout: str) -> list[tuple[str, str]]:
    codes = re.findall("[A-Za-wyz]", layout)
    return [(name, _NUMPY[code]) for name, code in zip(names.split(), codes, strict=True)]


ROW_DTYPE = np.dtype(_fields("start_ns duration_ns step update staleness value value2 kind flags", HEAD_FORMAT))
RECORD_DTYPE = np.dtype(
    [
        *((name, ROW_DTYPE[name]) for name in ROW_DTYPE.names or ()),
        ("pad", "<u2"),
        ("inside", _fields("start_ns duration_ns", INSIDE_FORMAT), len(INSIDE)),
    ]
)
"""As `train.recorder` writes it: a step has its phases inside."""
_CHUNK = 50_000


def decode(data: bytes) -> np.ndarray:
    """As rows, those of a step's phases before its own; a torn tail is left out."""
    records = np.frombuffer(data, RECORD_DTYPE, count=len(data) // RECORD_DTYPE.itemsize)
    # In pieces: rows that are not there take room, too, until they are left out.
    pieces = [_rows(records[at : at + _CHUNK]) for at in range(0, len(records), _CHUNK)]
    return np.concatenate(pieces) if pieces else np.empty(0, ROW_DTYPE)


def _rows(records: np.ndarray) -> np.ndarray:
    inside = records["inside"]
    there = inside["start_ns"] > 0
    if not there.any():
        return _heads(records)
    rows = np.empty((len(records), len(INSIDE) + 1), ROW_DTYPE)
    phases = rows[:, :-1]
    for name in ("start_ns", "duration_ns"):
        phases[name] = inside[name]
    for name in ("step", "flags"):
        phases[name] = records[name][:, None]
    phases["kind"] = INSIDE
    phases["update"], phases["staleness"], phases["value"], phases["value2"] = 0, -1, np.nan, np.nan
    rows[:, -1] = _heads(records)
    found: np.ndarray = rows[np.column_stack([there, np.ones(len(records), bool)])]
    return found


def _heads(records: np.ndarray) -> np.ndarray:
    rows = np.empty(len(records), ROW_DTYPE)
    for name in ROW_DTYPE.names or ():
        rows[name] = records[name]
    return rows
