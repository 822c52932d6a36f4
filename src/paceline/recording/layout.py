"""The layout of step records and of the file that holds them, declared once.

`StepRecord` is the field table: the offsets, the writer, the NumPy dtypes (`recording.rows`) and the parquet columns
(`store.tables`) are all derived from it. Every field takes one word of eight bytes. Times are nanoseconds of the task's
monotonic clock; of a phase that a step does not have, both times are 0.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, NamedTuple


class RecordKind(IntEnum):
    """What a record is about. The numbers are stored in files, so a new kind gets the next number."""

    DATA = 0
    PULL = 1
    COMPUTE = 2
    PUSH = 3
    WAIT = 4
    EVAL = 5
    CHECKPOINT = 6
    FUSED = 7
    """Pull, compute and push in one call of the framework; while it runs, they cannot be told apart."""
    STEP = 8
    """A whole step with all its phases."""
    SERVE = 9
    """How long a parameter server was busy between `start_ns` and the next such record."""
    FORWARD = 10
    BACKWARD = 11
    EXCHANGE = 12
    """Communication between the ranks of a user's script that no computation hides, with the wait for other ranks."""
    OPTIMIZER = 13
    SCHEDULE = 14
    """The part of `wait` in which the framework's scheduler had not started the step's work yet or not noticed its
    end. The duration is that of all such parts of a step."""
    GC = 15
    """How long the runtime of the framework stopped for garbage collection in a step, outside of its phases."""


# Plain integers for the code that runs at every step: enum members are slower to look up and to compare.
STEP, EVAL = int(RecordKind.STEP), int(RecordKind.EVAL)

PHASES = (
    RecordKind.DATA, RecordKind.PULL, RecordKind.FORWARD, RecordKind.BACKWARD, RecordKind.COMPUTE, RecordKind.PUSH,
    RecordKind.EXCHANGE, RecordKind.WAIT, RecordKind.OPTIMIZER, RecordKind.EVAL, RecordKind.CHECKPOINT,
)  # fmt: skip
"""The phases of a step and the work between steps, in the order in which they are shown."""
PHASE_NAMES = tuple(kind.name.lower() for kind in PHASES)
"""The phases as they are called in tables, JSON and charts."""
TIMED_NAMES = (*PHASE_NAMES, RecordKind.FUSED.name.lower())
"""The phases, and the fused calls that the analysis divides among them."""
STEP_PHASE_NAMES = tuple(
    name for name in TIMED_NAMES if name not in (RecordKind.EVAL.name.lower(), RecordKind.CHECKPOINT.name.lower())
)
"""The phases that are part of a step; evaluations and checkpoints come between steps."""
OTHER = "other"
"""The time of the steps of a user's script that belongs to no phase."""
SHOWN_NAMES = (*TIMED_NAMES, OTHER)
"""Everything that a worker's time can be divided into, in the order in which it is shown."""

TRACED = 1
"""Flag: the framework traced the step. Its phases are known, but tracing made it longer than other steps."""
FINAL = 2
"""Flag: the evaluation after the last update."""

_TIME, _INTEGER, _BYTE, _FLOAT = "<u8", "<i8", "u1", "<f8"
"""NumPy types of a stored field. Of a byte only the first of its word's eight bytes is read: a damaged file cannot
claim a kind beyond 255."""


class Field(NamedTuple):
    """One field of a record."""

    name: str
    stored: str
    """NumPy type in the record."""
    row: str | None
    """NumPy type in a row (`recording.rows`); None if the field does not become a part of each row."""
    columns: Mapping[str, str]
    """The parquet columns made from this field, with their NumPy types."""
    phase: RecordKind | None
    """The phase that begins or ends at this time."""
    meaning: str

    @property
    def is_float(self) -> bool:
        return self.stored == _FLOAT


def _word(
    meaning: str,
    stored: str = _INTEGER,
    default: float = 0,
    row: str | None = None,
    columns: Mapping[str, str] | None = None,
    phase: RecordKind | None = None,
) -> Any:
    described = {"meaning": meaning, "stored": stored, "row": row, "columns": columns or {}, "phase": phase}
    return field(default=default, metadata=described)


def _time(meaning: str, phase: RecordKind | None = None, column: str | None = None) -> Any:
    return _word(meaning, _TIME, columns={column: "<f8"} if column else None, phase=phase)


def _column(name: str, narrow: str, meaning: str, stored: str = _INTEGER, default: float = 0) -> Any:
    """A field that is a parquet column of the same name, there with a narrower type."""
    return _word(meaning, stored, default, row=narrow, columns={name: narrow})


_NAN = float("nan")


@dataclass(slots=True)
class StepRecord:
    """One record. Strategies and the training loop fill in the record of the step under way, by name.

    The phases come last and each has its start before its end: readers see them as one array.
    """

    kind: int = _word("Which RecordKind this is.", _BYTE, STEP, row="u1", columns={"kind": "str"})
    step: int = _column("step", "<u4", "The worker's number of the step, from 0.")
    update: int = _column("update", "<u4", "Updates of the global parameters so far, this one included.")
    start_ns: int = _time("Start of the step or phase; 0 between steps.", column="t_s")
    end_ns: int = _time("End of the step or phase.", column="duration_s")
    loss: float = _column("loss", "<f4", "Loss of the batch, or of the test set in an evaluation.", _FLOAT, _NAN)
    accuracy: float = _column("accuracy", "<f4", "Accuracy on the test set, in an evaluation.", _FLOAT, _NAN)
    staleness: int = _column("staleness", "<i4", "Others' updates between pull and push; -1 if unknown.", default=-1)
    flags: int = _word("TRACED and FINAL.", _BYTE, row="u1", columns={"traced": "bool", "final": "bool"})
    examples: int = _column("examples", "<u4", "Examples of the step of a user's script; else 0.")
    micro_batches: int = _column("micro_batches", "<u4", "Backward passes in the step of a user's script; else 0.")
    data_end_ns: int = _time("End of the data phase, which begins with the step.")
    pull_start_ns: int = _time("Start of receiving parameters.", RecordKind.PULL)
    pull_end_ns: int = _time("End of receiving parameters.", RecordKind.PULL)
    compute_start_ns: int = _time("Start of the computation.", RecordKind.COMPUTE)
    compute_end_ns: int = _time("End of the computation.", RecordKind.COMPUTE)
    push_start_ns: int = _time("Start of sending or averaging gradients.", RecordKind.PUSH)
    push_end_ns: int = _time("End of sending or averaging gradients.", RecordKind.PUSH)
    wait_start_ns: int = _time("Start of waiting for other workers.", RecordKind.WAIT)
    wait_end_ns: int = _time("End of waiting for other workers.", RecordKind.WAIT)
    forward_start_ns: int = _time("Start of the first forward pass.", RecordKind.FORWARD)
    forward_end_ns: int = _time("That start plus the time of all forward passes of the step.", RecordKind.FORWARD)
    backward_start_ns: int = _time("Start of the first backward pass.", RecordKind.BACKWARD)
    backward_end_ns: int = _time("That start plus the time of all backward passes of the step.", RecordKind.BACKWARD)
    exchange_start_ns: int = _time("Start of the first exchange that no computation hides.", RecordKind.EXCHANGE)
    exchange_end_ns: int = _time("End of that exchange; further ones have records of their own.", RecordKind.EXCHANGE)
    optimizer_start_ns: int = _time("Start of the optimizer.", RecordKind.OPTIMIZER)
    optimizer_end_ns: int = _time("That start plus the time of the optimizer.", RecordKind.OPTIMIZER)
    fused_start_ns: int = _time("Start of a call that pulls, computes and pushes.", RecordKind.FUSED)
    fused_end_ns: int = _time("End of a call that pulls, computes and pushes.", RecordKind.FUSED)


FIELDS = tuple(Field(name=declared.name, **declared.metadata) for declared in fields(StepRecord))
OFFSETS = {entry.name: word for word, entry in enumerate(FIELDS)}
"""The word of a record at which each field lies."""
STEP_PHASES = tuple(dict.fromkeys(entry.phase for entry in FIELDS if entry.phase is not None))
"""The phases that have their own times in the record of a step, in the order of its fields."""

WORD_BYTES = 8
RECORD_WORDS = len(FIELDS)
RECORD_BYTES = WORD_BYTES * RECORD_WORDS
RECORD = struct.Struct("=" + "".join("d" if entry.is_float else "q" for entry in FIELDS))


def phase_fields(kind: RecordKind) -> tuple[str, str]:
    """The names of the fields for the start and the end of a phase."""
    start, end = (entry.name for entry in FIELDS if entry.phase is kind)
    return start, end


class Header(NamedTuple):
    """The start of a record file, one word each."""

    magic: bytes
    """Changes with the layout: a file of another version is not read."""
    record_bytes: int
    next_word: int
    """The word of the file at which the next record goes; raised after a record is complete."""
    busy: int
    """The RecordKind of the work other than steps that the task is doing; 0 if none."""


MAGIC = b"PLREC06\n"
HEADER = struct.Struct("=8sQQQ32x")
"""The fields of Header, padded to 64 bytes."""
HEADER_WORDS = HEADER.size // WORD_BYTES
NEXT_WORD, BUSY_WORD = (Header._fields.index(name) for name in ("next_word", "busy"))


def parse_header(data: bytes) -> Header | None:
    """The header of a record file; None if the file is too short or not of this version."""
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return None
    return Header(*HEADER.unpack_from(data))
