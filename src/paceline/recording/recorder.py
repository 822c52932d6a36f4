"""Step records: fixed-size, in a memory-mapped file, so that they cost little and survive kill -9.

A task writes; its agent reads the same file and ships what is new. The file is a header and then
records; where the next one goes is raised, in the header, after one is whole, so a reader never sees a torn one.

The phases of a step are written with it, in one record: between steps that empty the caches, each write costs
several times what it costs in a loop of its own. So does each call: strategies only read the clock between phases and
leave what they read; what is not done at every step, or takes long, uses a context manager. A step that is killed takes
along what it had not written.
"""

import mmap
import os
import struct
import time
from array import array
from collections.abc import Iterator
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

INSIDE = (Kind.PULL, Kind.COMPUTE, Kind.PUSH, Kind.WAIT, Kind.FUSED)
"""Phases that the record of a step has room for, one of each; its data comes first and begins with it."""
WORDS = (
    *("start_ns", "end_ns", "data_end_ns"),
    *("pull_ns", "pulled_ns", "compute_ns", "computed_ns", "push_ns", "pushed_ns", "wait_ns", "waited_ns"),
    *("fused_ns", "fused_end_ns"),
    *("step", "update", "staleness", "kind_and_flags", "value", "value2"),
)
"""Of a record, each of eight bytes; flags begin at the second byte, and the values are floating. Of a phase that is not
there, both times are 0."""
_VALUES = 2
_RECORD_WORDS = len(WORDS)
RECORD_BYTES = 8 * _RECORD_WORDS
_MAGIC = b"PLREC04\n"
_WORD = struct.Struct("=Q")
_NEXT = 2
"""The word of the header that says at which word the next record goes."""
_ASIDE_AT = 24
_HEADER_BYTES = 64
_GROW_BYTES = 16_384 * RECORD_BYTES
_NAN = float("nan")
NONE = (0, 0)
"""A phase that a step does not have, as a stretch of time."""
_NO_PHASES: tuple[int, ...] = NONE * len(INSIDE)
_LONG_NS = 50_000_000
"""A span that took this long is written at once, so that a long step is not lost as a whole."""
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
        recorder, place = self._recorder, self._place
        phases = recorder.phases
        if phases[place] or duration_ns >= _LONG_NS or not recorder.step_start_ns:
            recorder.write(self._kind, start_ns, duration_ns)
        else:
            recorder.phases = (*phases[:place], start_ns, start_ns + duration_ns, *phases[place + 2 :])


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
        self._next = self._end = _HEADER_BYTES // 8
        self._file.write(_MAGIC + _WORD.pack(RECORD_BYTES) + _WORD.pack(self._next))
        self._grow()
        self.step_number = 0
        self.step_flags = 0
        # What follows is for the loop and the strategy to set: of a step that takes less than a millisecond, telling
        # each phase by a call would cost several times what it costs to note it here.
        self.step_start_ns = 0
        """When the step under way began; 0 between steps."""
        self.data_end_ns = 0
        """When it had its data."""
        self.phases = _NO_PHASES
        """From when to when it did what is INSIDE; either from here or from spans."""
        self.pull = self._span(self, Kind.PULL)
        self.compute = self._span(self, Kind.COMPUTE)
        self.push = self._span(self, Kind.PUSH)
        self.wait = self._span(self, Kind.WAIT)

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
    ) -> None:
        """All but steps."""
        at = self._next
        if at == self._end:
            self._grow()
        what = (self.step_number, update, staleness, kind | (flags | self.step_flags) << 8)
        values = at + _RECORD_WORDS - _VALUES
        self._words[at:values] = array("q", (start_ns, start_ns + duration_ns, 0, *_NO_PHASES, *what))
        self._floats[values], self._floats[values + 1] = value, value2
        self._next = self._words[_NEXT] = at + _RECORD_WORDS

    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        """What is recorded from here on belongs to the next.

        In the order of WORDS, and not by `write`: what a record costs is the code it takes, since after a step none of
        it is in the caches; a struct and its calls cost twice as much.
        """
        at = self._next
        if at == self._end:
            self._grow()
        words = self._words
        words[at] = self.step_start_ns
        words[at + 1] = end_ns
        words[at + 2] = self.data_end_ns
        (
            words[at + 3],
            words[at + 4],
            words[at + 5],
            words[at + 6],
            words[at + 7],
            words[at + 8],
            words[at + 9],
            words[at + 10],
            words[at + 11],
            words[at + 12],
        ) = self.phases
        words[at + 13] = self.step_number
        words[at + 14] = update
        words[at + 15] = staleness
        words[at + 16] = STEP | self.step_flags << 8
        self._floats[at + 17] = loss
        self._floats[at + 18] = _NAN
        self._next = words[_NEXT] = at + _RECORD_WORDS
        self.step_number += 1
        # As where a step is dropped; a call of its own would count here.
        self.step_start_ns = self.step_flags = 0
        self.phases = _NO_PHASES

    def drop_step(self) -> None:
        """The step, if there is one, does not count; its phases took their time all the same."""
        start, end, phases = self.step_start_ns, self.data_end_ns, self.phases
        if start and end >= start:
            self.write(Kind.DATA, start, end - start)
        for kind, start, end in zip(INSIDE, phases[::2], phases[1::2], strict=True):
            if start:
                self.write(kind, start, end - start)
        self.step_start_ns = self.step_flags = 0
        self.phases = _NO_PHASES

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
        self._words.release()
        self._floats.release()
        self._map.close()
        self._file.close()

    def _grow(self) -> None:
        size = 8 * self._end + _GROW_BYTES
        _reserve(self._file.fileno(), size)
        # The old mapping is dropped, not closed: nothing else refers to it.
        self._map = mmap.mmap(self._file.fileno(), size)
        self._words, self._floats = memoryview(self._map).cast("q"), memoryview(self._map).cast("d")
        self._end = size // 8


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
            (end,) = _WORD.unpack_from(head, 8 * _NEXT)
            file.truncate(min(8 * end, os.fstat(file.fileno()).st_size))


class SilentRecorder(Recorder):
    """Keeps nothing: for measuring what recording costs."""

    _span = SilentSpan

    def end_step(self, end_ns: int, update: int, loss: float, staleness: int = -1) -> None:
        self.step_number += 1

    def write(self, *_: object, **__: object) -> None:
        pass


class RecordReader:
    """Reads what is new in another process's record file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _HEADER_BYTES
        self.aside: str | None = None
        """What the task was busy with when last looked at, if not with steps."""

    def new(self, at_most: int = 200_000) -> bytes:
        """Whole records written since the last call; empty if there is no file yet."""
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEADER_BYTES)
                if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
                    return b""
                (end,) = _WORD.unpack_from(head, 8 * _NEXT)
                self.aside = _name_of(head[_ASIDE_AT])
                wanted = min(8 * end - self._seen, at_most * RECORD_BYTES)
                if wanted <= 0:
                    return b""
                file.seek(self._seen)
                data = file.read(wanted)
        except FileNotFoundError:
            return b""
        whole = len(data) - len(data) % RECORD_BYTES
        self._seen += whole
        return data[:whole]


def _name_of(aside: int) -> str | None:
    """Of what is going on beside steps; a step's data, which is 0, is none of it."""
    return Kind(aside).name.lower() if aside in (Kind.WAIT, Kind.EVAL, Kind.CHECKPOINT) else None
