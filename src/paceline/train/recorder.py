"""Step records: fixed-size, in a memory-mapped file, so that they cost little and survive kill -9.

A task writes; its agent reads the same file and ships what is new. The file is a header and then
records; the count in the header is raised after a record is whole, so a reader never sees a torn one.

The phases of a step are written with it, in one record: between steps that empty the caches, each write costs
several times what it costs in a loop of its own. So a step that is killed takes its short phases along.
"""

import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from types import TracebackType


class Kind(IntEnum):
    """What a record tells. The first seven are the phases of a step."""

    DATA = 0
    PULL = 1
    COMPUTE = 2
    PUSH = 3
    WAIT = 4
    EVAL = 5
    CHECKPOINT = 6
    FUSED = 7
    """Pull, compute and push in one call of the framework that cannot be told apart while it runs."""
    STEP = 8
    """A whole step: `update`, `staleness`, and the loss as `value`."""
    SERVE = 9
    """How long a server was busy, from `start` to the next such record."""


# As plain numbers: members of an enum take their time, and records come all the time.
STEP, EVAL = int(Kind.STEP), int(Kind.EVAL)
PHASES = tuple(kind for kind in Kind if kind <= Kind.CHECKPOINT)

TRACED = 1
"""Flag: the step was traced, so its phases are known but its duration is not a fair one."""
FINAL = 2
"""Flag: the evaluation after the last update."""

INSIDE = (Kind.DATA, Kind.PULL, Kind.COMPUTE, Kind.PUSH, Kind.WAIT, Kind.FUSED)
"""Phases that the record of a step has room for, one of each."""
HEAD_FORMAT = "<QQIIiffBBxx"
"""start_ns, duration_ns, step, update, staleness, value, value2, kind, flags"""
INSIDE_FORMAT = "QI"
"""start_ns, duration_ns: of each phase INSIDE; a start of 0 is none."""
_RECORD = struct.Struct(HEAD_FORMAT + INSIDE_FORMAT * len(INSIDE))
RECORD_BYTES = _RECORD.size
_MAGIC = b"PLREC02\n"
_COUNT = struct.Struct("<Q")
_COUNT_AT = 16
_ASIDE_AT = 24
_HEADER_BYTES = 64
_GROW_RECORDS = 16_384
_pack_record, _pack_count = _RECORD.pack_into, _COUNT.pack_into
_NAN = float("nan")
_ROOM = 2 * len(INSIDE)
_NOTHING_INSIDE = (0,) * _ROOM
_NO_STEP = [1] * _ROOM
"""In place of what a step's phases took, while there is no step: there is no room in it."""
_LONG_NS = 50_000_000
"""A phase that took this long is written at once, so that a step of seconds is not lost as a whole."""
clock_ns = time.monotonic_ns


class Span:
    """The context manager of one phase; each kind has one, used over and over."""

    __slots__ = ("_kind", "_place", "_recorder", "_start")

    def __init__(self, recorder: "Recorder", kind: Kind) -> None:
        self._recorder = recorder
        self._kind = int(kind)
        self._place = 2 * INSIDE.index(kind)
        self._start = 0

    def __enter__(self) -> None:
        self._start = clock_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        start = self._start
        self.took(start, clock_ns() - start)

    def took(self, start_ns: int, duration_ns: int) -> None:
        """It was this phase then, and so long."""
        inside = self._recorder._inside
        place = self._place
        if inside[place] or duration_ns >= _LONG_NS:
            self._recorder.write(self._kind, start_ns, duration_ns)
        else:
            inside[place] = start_ns
            inside[place + 1] = duration_ns


class SilentSpan(Span):
    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def took(self, start_ns: int, duration_ns: int) -> None:
        pass


class Recorder:
    """Writes one task's records."""

    _span: type[Span] = Span

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._file.write(_MAGIC + _COUNT.pack(RECORD_BYTES) + _COUNT.pack(0))
        self._capacity = 0
        self._count = 0
        self._grow()
        self.step_number = 0
        self.step_flags = 0
        self._step_start = 0
        self._inside = _NO_STEP
        self.data = self._span(self, Kind.DATA)
        self.pull = self._span(self, Kind.PULL)
        self.compute = self._span(self, Kind.COMPUTE)
        self.push = self._span(self, Kind.PUSH)
        self.wait = self._span(self, Kind.WAIT)
        self.fused = self._span(self, Kind.FUSED)

    def write(
        self,
        kind: int,
        start_ns: int,
        duration_ns: int,
        update: int = 0,
        staleness: int = -1,
        value: float = _NAN,
        value2: float = _NAN,
        flags: int = 0,
        inside: Sequence[int] = _NOTHING_INSIDE,
    ) -> None:
        count = self._count
        if count == self._capacity:
            self._grow()
        _pack_record(
            self._map,
            _HEADER_BYTES + count * RECORD_BYTES,
            start_ns,
            duration_ns,
            self.step_number,
            update,
            staleness,
            value,
            value2,
            kind,
            flags | self.step_flags,
            *inside,
        )
        self._count = count + 1
        _pack_count(self._map, _COUNT_AT, count + 1)

    def begin_step(self) -> None:
        """Phases from here on are of this step."""
        self._inside = [0] * _ROOM
        self._step_start = clock_ns()

    def end_step(self, update: int, loss: float, staleness: int = -1) -> None:
        """What is recorded from here on belongs to the next."""
        start = self._step_start
        self.write(STEP, start, clock_ns() - start, update, staleness, loss, inside=self._inside)
        self._inside = _NO_STEP
        self.step_number += 1
        self.step_flags = 0

    def drop_step(self) -> None:
        """The step, if there is one, does not count; its phases took their time all the same."""
        inside, self._inside = self._inside, _NO_STEP
        if inside is not _NO_STEP:
            for place, kind in enumerate(INSIDE):
                if inside[2 * place]:
                    self.write(kind, inside[2 * place], inside[2 * place + 1])
        self.step_flags = 0

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        start = clock_ns()
        try:
            with self.aside(Kind.CHECKPOINT):
                yield
        finally:
            self.write(Kind.CHECKPOINT, start, clock_ns() - start)

    def evaluation(self, start_ns: int, update: int, loss: float, accuracy: float, *, final: bool) -> None:
        self.write(
            Kind.EVAL, start_ns, clock_ns() - start_ns, update, value=loss, value2=accuracy, flags=FINAL if final else 0
        )

    @contextmanager
    def aside(self, kind: Kind) -> Iterator[None]:
        """What is no step and may take long: for as long as it lasts, whoever reads along can see that it does."""
        before = self._map[_ASIDE_AT]
        self._map[_ASIDE_AT] = kind
        try:
            yield
        finally:
            self._map[_ASIDE_AT] = before

    def close(self) -> None:
        self._map.close()
        self._file.close()

    def _grow(self) -> None:
        capacity = self._capacity + _GROW_RECORDS
        size = _HEADER_BYTES + capacity * RECORD_BYTES
        _reserve(self._file.fileno(), size)
        # The old mapping is dropped, not closed: nothing else refers to it.
        self._map = mmap.mmap(self._file.fileno(), size)
        self._capacity = capacity


def _reserve(file: int, size: int) -> None:
    """Make the file that large with its space taken: on a full disk an error here, not a SIGBUS at some later write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)


def give_room_back(path: Path) -> None:
    """Cut off what was reserved for more records, of a task that is gone."""
    with path.open("r+b") as file:
        head = file.read(_HEADER_BYTES)
        if len(head) == _HEADER_BYTES and head.startswith(_MAGIC):
            (count,) = _COUNT.unpack_from(head, _COUNT_AT)
            file.truncate(min(_HEADER_BYTES + count * RECORD_BYTES, os.fstat(file.fileno()).st_size))


class SilentRecorder(Recorder):
    """Keeps nothing: for measuring what recording costs."""

    _span = SilentSpan

    def write(self, *_: object, **__: object) -> None:
        pass


class RecordReader:
    """Reads what is new in another process's record file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self.aside: str | None = None
        """What the task was busy with when last looked at, if not with steps."""

    def new(self, at_most: int = 200_000) -> bytes:
        """Whole records written since the last call; empty if there is no file yet."""
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEADER_BYTES)
                if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
                    return b""
                (count,) = _COUNT.unpack_from(head, _COUNT_AT)
                self.aside = _name_of(head[_ASIDE_AT])
                wanted = min(count - self._seen, at_most)
                if wanted <= 0:
                    return b""
                file.seek(_HEADER_BYTES + self._seen * RECORD_BYTES)
                data = file.read(wanted * RECORD_BYTES)
        except FileNotFoundError:
            return b""
        whole = len(data) // RECORD_BYTES
        self._seen += whole
        return data[: whole * RECORD_BYTES]


def _name_of(aside: int) -> str | None:
    """Of what is going on beside steps; a step's data, which is 0, is none of it."""
    return Kind(aside).name.lower() if aside in (Kind.WAIT, Kind.EVAL, Kind.CHECKPOINT) else None
