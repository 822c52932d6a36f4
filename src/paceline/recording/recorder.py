"""Writes step records into a memory-mapped file, so that they cost little and survive kill -9.

A task writes; its agent reads the same file and ships the new records. The header says where the next record goes; it
is raised after a record is complete, so a reader never sees half a record. If a task is killed, the phases of the step
under way that were not yet written are lost.

The phases of a step are written with it, in one record. After a step of the model none of the recorder's code and data
is in the CPU caches, so every call and every write costs several times what a tight loop would show (measure with
`python -m bench record`). Strategies therefore read the clock between phases and set the times in `Recorder.current`;
work that is long or not done at every step uses the context managers.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from paceline.recording.layout import (
    BUSY_WORD,
    FIELDS,
    FINAL,
    HEADER,
    HEADER_WORDS,
    MAGIC,
    NEXT_WORD,
    RECORD,
    RECORD_BYTES,
    RECORD_WORDS,
    STEP,
    STEP_PHASES,
    WORD_BYTES,
    RecordKind,
    StepRecord,
    phase_fields,
)

_GROW_BYTES = 16_384 * RECORD_BYTES
"""By this much the file grows when it is full: rarely enough not to disturb training, 3.9 MB."""
_LONG_NS = 50_000_000
"""A span this long is written at once, so that it is not lost if the step is killed."""
_NAN = float("nan")
_VALUES = attrgetter(*(field.name for field in FIELDS))
_STEP_PHASE_FIELDS = {kind: phase_fields(kind) for kind in STEP_PHASES}
_OF_ONE_STEP = (
    "start_ns", "data_end_ns", *(name for pair in _STEP_PHASE_FIELDS.values() for name in pair), "flags", "examples",
    "micro_batches",
)  # fmt: skip
"""Fields that are 0 again when the next step begins."""
_CONSTANT_IN_SCRIPTS = {"kind": STEP, "accuracy": _NAN, "staleness": -1, "flags": 0}
_UNUSED_IN_SCRIPTS = tuple(
    name for kind in (RecordKind.PULL, RecordKind.COMPUTE, RecordKind.PUSH, RecordKind.WAIT, RecordKind.FUSED)
    for name in _STEP_PHASE_FIELDS[kind]
)  # fmt: skip
SCRIPT_STEP_FIELDS = tuple(
    field.name for field in FIELDS if field.name not in (*_CONSTANT_IN_SCRIPTS, "step", *_UNUSED_IN_SCRIPTS)
)
"""What the record of a step of a user's script is made of, in the order of `Recorder.write_script_step`."""
_SCRIPT_STEP = struct.Struct(
    "=" + "".join("8x" if field.name in _UNUSED_IN_SCRIPTS else "d" if field.is_float else "q" for field in FIELDS)
)
clock_ns = time.monotonic_ns

_Method = TypeVar("_Method", bound=Callable[..., None])


class Span:
    """The context manager of one phase. Each phase has one per recorder, used again and again."""

    __slots__ = ("_end_field", "_kind", "_recorder", "_start_field", "_start_ns")

    def __init__(self, recorder: "Recorder", kind: RecordKind) -> None:
        self._recorder, self._kind = recorder, kind
        self._start_field, self._end_field = _STEP_PHASE_FIELDS[kind]
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = clock_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.add(self._start_ns, clock_ns() - self._start_ns)

    def add(self, start_ns: int, duration_ns: int) -> None:
        """Record that this phase lasted from `start_ns` for `duration_ns`.

        It becomes a part of the step under way, or a record of its own if there is no step, if the step already has
        this phase, or if it was long.
        """
        step = self._recorder.current
        if getattr(step, self._start_field) or duration_ns >= _LONG_NS or not step.start_ns:
            self._recorder.write(self._kind, start_ns, duration_ns)
        else:
            setattr(step, self._start_field, start_ns)
            setattr(step, self._end_field, start_ns + duration_ns)


class SilentSpan(Span):
    """A span that records nothing."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def add(self, start_ns: int, duration_ns: int) -> None:
        pass


def end_step_source() -> str:
    """The source of `Recorder.end_step`: one assignment for each field of StepRecord.

    It is generated because a loop over the fields, a struct or a further call each make recording a step slower by a
    third or more.
    """
    arguments = ("end_ns", "update", "loss", "staleness")
    values = [field.name if field.name in arguments else f"record.{field.name}" for field in FIELDS]
    views = ["floats" if field.is_float else "words" for field in FIELDS]
    return "\n    ".join(
        (
            f"def end_step(self, {', '.join(arguments)}=-1):",
            "at = self._next",
            "if at == self._end:",
            "    self._grow()",
            "record, words, floats = self.current, self._words, self._floats",
            *(f"{view}[at + {word}] = {value}" for word, (view, value) in enumerate(zip(views, values, strict=True))),
            f"self._next = words[{NEXT_WORD}] = at + {RECORD_WORDS}",
            "record.step += 1",
            " = ".join(f"record.{name}" for name in _OF_ONE_STEP) + " = 0",
        )
    )


def script_step_source() -> str:
    """The source of `Recorder.write_script_step`: one call that writes the whole record."""
    given = {name: repr(value) for name, value in _CONSTANT_IN_SCRIPTS.items()} | {"step": "record.step"}
    given["accuracy"] = "nan"
    values = [given.get(field.name, field.name) for field in FIELDS if field.name not in _UNUSED_IN_SCRIPTS]
    return "\n    ".join(
        (
            f"def write_script_step(self, {', '.join(SCRIPT_STEP_FIELDS)}):",
            "at = self._next",
            "if at == self._end:",
            "    self._grow()",
            "record = self.current",
            f"pack_into(self._map, {WORD_BYTES} * at, {', '.join(values)})",
            f"self._next = self._words[{NEXT_WORD}] = at + {RECORD_WORDS}",
            "record.step += 1",
        )
    )


def _generated(source: Callable[[], str]) -> Callable[[_Method], _Method]:
    """Decorator: replaces the declared method by the generated one of the same name."""

    def replace(declared: _Method) -> _Method:
        name = declared.__name__
        namespace: dict[str, Any] = {"nan": _NAN, "pack_into": _SCRIPT_STEP.pack_into}
        exec(compile(source(), f"<{name}, generated from StepRecord>", "exec"), namespace)
        return update_wrapper(namespace[name], declared)  # type: ignore[return-value]

    return replace


class Recorder:
    """Writes the records of one task."""

    _span: type[Span] = Span

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._next = self._end = HEADER_WORDS
        self._file.write(HEADER.pack(MAGIC, RECORD_BYTES, self._next, 0))
        self._grow()
        self.current = StepRecord()
        """The record of the step under way, or of the next one. The loop and the strategy set its fields; it is the
        same object for all steps."""
        self.pull = self._span(self, RecordKind.PULL)
        self.compute = self._span(self, RecordKind.COMPUTE)
        self.push = self._span(self, RecordKind.PUSH)
        self.wait = self._span(self, RecordKind.WAIT)

    def write(
        self,
        kind: RecordKind,
        start_ns: int,
        duration_ns: int,
        *,
        update: int = 0,
        loss: float = _NAN,
        accuracy: float = _NAN,
        flags: int = 0,
    ) -> None:
        """Write a record other than the step under way; it gets the number and the flags of that step."""
        record = StepRecord(
            kind, self.current.step, update, start_ns, start_ns + duration_ns, loss, accuracy,
            flags=flags | self.current.flags,
        )  # fmt: skip
        at = self._next
        if at == self._end:
            self._grow()
        RECORD.pack_into(self._map, WORD_BYTES * at, *_VALUES(record))
        self._next = self._words[NEXT_WORD] = at + RECORD_WORDS

    @_generated(end_step_source)
    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        """Write the step under way. What is recorded from here on belongs to the next step."""

    @_generated(script_step_source)
    def write_script_step(self, *values: float) -> None:
        """Write a step of a user's script: the values of SCRIPT_STEP_FIELDS."""

    def drop_step(self) -> None:
        """Write the phases of the step under way, if there is one, but no step: its gradient was not used."""
        step = self.current
        phases = [(RecordKind.DATA, step.start_ns, step.data_end_ns)]
        for kind, (start_field, end_field) in _STEP_PHASE_FIELDS.items():
            phases.append((kind, getattr(step, start_field), getattr(step, end_field)))
        for kind, start_ns, end_ns in phases:
            if start_ns and end_ns >= start_ns:
                self.write(kind, start_ns, end_ns - start_ns)
        for name in _OF_ONE_STEP:
            setattr(step, name, 0)

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Record the time inside as writing a checkpoint."""
        start_ns = clock_ns()
        try:
            with self.busy(RecordKind.CHECKPOINT):
                yield
        finally:
            self.write(RecordKind.CHECKPOINT, start_ns, clock_ns() - start_ns)

    def evaluation(self, start_ns: int, update: int, loss: float, accuracy: float, *, final: bool) -> None:
        """Record an evaluation that began at `start_ns` and ends now."""
        self.write(
            RecordKind.EVAL, start_ns, clock_ns() - start_ns,
            update=update, loss=loss, accuracy=accuracy, flags=FINAL if final else 0,
        )  # fmt: skip

    @contextmanager
    def busy(self, kind: RecordKind) -> Iterator[None]:
        """Show readers of the file, while this lasts, that the task does work of this kind instead of steps."""
        before = self._words[BUSY_WORD]
        self.set_busy(kind)
        try:
            yield
        finally:
            self.set_busy(before)

    def set_busy(self, kind: int) -> None:
        """Show readers of the file that the task does work of this RecordKind from now on; 0: steps."""
        self._words[BUSY_WORD] = kind

    def close(self) -> None:
        self._words.release()
        self._floats.release()
        self._map.close()
        self._file.close()

    def _grow(self) -> None:
        size = WORD_BYTES * self._end + _GROW_BYTES
        _reserve(self._file.fileno(), size)
        # The old mapping is dropped, not closed: nothing else refers to it.
        self._map = mmap.mmap(self._file.fileno(), size)
        self._words, self._floats = memoryview(self._map).cast("q"), memoryview(self._map).cast("d")
        self._end = size // WORD_BYTES


def _reserve(file: int, size: int) -> None:
    """Make the file this large and allocate its space: on a full disk this raises OSError here, while a later write
    into the mapping would end the process with SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)


class SilentRecorder(Recorder):
    """Records nothing: for runs that measure what recording costs."""

    _span = SilentSpan

    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        self.current.step += 1

    def write_script_step(self, *values: float) -> None:
        self.current.step += 1

    def write(self, *_: object, **__: object) -> None:
        pass
