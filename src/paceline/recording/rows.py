"""What a task recorded, as rows: one for each phase, step, evaluation."""

import numpy as np

from paceline.recording.recorder import INSIDE, WORDS, Kind

RECORD_DTYPE = np.dtype(
    [
        *((name, "<u8") for name in WORDS[:3]),
        ("inside", "<u8", (len(INSIDE), 2)),
        *((name, "<i8") for name in ("step", "update", "staleness")),
        ("kind", "u1"),
        ("flags", "u1"),
        ("pad", "V6"),
        *((name, "<f8") for name in ("value", "value2")),
    ]
)
"""As `train.recorder` writes its WORDS: a step has its phases inside."""
ROW_DTYPE = np.dtype(
    [
        *((name, "<u8") for name in ("start_ns", "duration_ns")),
        *((name, "<u4") for name in ("step", "update")),
        ("staleness", "<i4"),
        *((name, "<f4") for name in ("value", "value2")),
        *((name, "u1") for name in ("kind", "flags")),
    ]
)
_KEPT = ("step", "update", "staleness", "value", "value2", "kind", "flags")
_CHUNK = 50_000
_INSIDE = [int(kind) for kind in INSIDE]


def as_written(data: bytes) -> np.ndarray:
    """A torn tail is left out."""
    return np.frombuffer(data, RECORD_DTYPE, count=len(data) // RECORD_DTYPE.itemsize)


def of_kind(records: np.ndarray, kind: int) -> np.ndarray:
    """No copy if all are: mostly all are steps, and to copy records takes longer than all that is made of them."""
    found = records["kind"] == kind
    return records if found.all() else records[found]


def spent_ns(records: np.ndarray) -> np.ndarray:
    """How long each kind took in all, without making rows of them."""
    start = records["start_ns"]
    counted = np.bincount(records["kind"], weights=records["end_ns"] - start, minlength=len(Kind))
    total: np.ndarray = counted.astype(float)  # Of no records at all it would be whole numbers.
    total[Kind.DATA] += (records["data_end_ns"] - start)[_has_data(records)].sum()
    # Sums of times may be too large for what holds them; what they differ by is right all the same.
    sums = records["inside"].sum(axis=0)
    total[_INSIDE] += sums[:, 1] - sums[:, 0]
    return total


def decode(data: bytes) -> np.ndarray:
    """As rows, those of a step's phases before its own."""
    records = as_written(data)
    # In pieces: rows that are not there take room, too, until they are left out.
    pieces = [_rows(records[at : at + _CHUNK]) for at in range(0, len(records), _CHUNK)]
    return np.concatenate(pieces) if pieces else np.empty(0, ROW_DTYPE)


def _has_data(records: np.ndarray) -> np.ndarray:
    data_end = records["data_end_ns"]
    has: np.ndarray = (data_end > 0) & (data_end >= records["start_ns"])
    return has


def _rows(records: np.ndarray) -> np.ndarray:
    """Of each record those of its data and of its phases, as far as it has any, and its own."""
    rows = np.empty((len(records), 1 + len(INSIDE) + 1), ROW_DTYPE)
    there = np.ones(rows.shape, bool)
    start, data_end, inside = records["start_ns"], records["data_end_ns"], records["inside"]
    there[:, 0] = _has_data(records)
    there[:, 1:-1] = inside[:, :, 0] > 0
    if not there[:, :-1].any():
        rows, there = rows[:, -1:], there[:, -1:]
    else:
        phases = rows[:, :-1]
        phases["start_ns"][:, 0], phases["duration_ns"][:, 0] = start, data_end - start
        phases["start_ns"][:, 1:], phases["duration_ns"][:, 1:] = inside[:, :, 0], inside[:, :, 1] - inside[:, :, 0]
        for name in ("step", "flags"):
            phases[name] = records[name][:, None]
        phases["kind"] = (Kind.DATA, *INSIDE)
        phases["update"], phases["staleness"], phases["value"], phases["value2"] = 0, -1, np.nan, np.nan
    own = rows[:, -1]
    own["start_ns"], own["duration_ns"] = start, records["end_ns"] - start
    # What a run that diverged comes to is too large for it to matter how large; what nobody wrote may be anything.
    with np.errstate(over="ignore", invalid="ignore"):
        for name in _KEPT:
            own[name] = records[name]
    found: np.ndarray = rows[there]
    return found
