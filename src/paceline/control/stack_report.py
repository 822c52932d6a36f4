"""Where stuck tasks are, and which of them is the odd one out: what faulthandler wrote in, a table out. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from paceline.control.watchdog import Progress
from paceline.messages import Stacks

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_STOPPED = {"stopped", "tracing-stop"}
_LETTERS = {"stopped": "T", "tracing-stop": "t", "disk-sleep": "D", "zombie": "Z"}
_ENGINES = "paceline/engines/"


class Frame(msgspec.Struct, frozen=True):
    file: str
    line: int
    function: str

    @property
    def is_own(self) -> bool:
        """Paceline's or the user's, and not a library's."""
        if "/paceline/" in self.file:
            return True
        return not ("-packages/" in self.file or "/lib/python" in self.file or self.file.startswith("<"))

    def __str__(self) -> str:
        _, ours, inside = self.file.rpartition("/paceline/")
        return f"{'paceline/' if ours else ''}{inside if ours else self.file}:{self.line} {self.function}"


class Found(msgspec.Struct, frozen=True):
    """One task as it was found."""

    task: str
    host: str
    state: str
    """Of its process, e.g. sleeping, stopped."""
    text: str = ""
    """All its threads, as faulthandler tells them; empty if it did not answer."""
    progress: Progress | None = None
    """None of what makes no steps."""

    @property
    def is_worker(self) -> bool:
        return self.progress is not None

    @property
    def place(self) -> Frame | None:
        """The innermost frame of the main thread that is not a library's."""
        frames = main_thread(self.text)
        return next((frame for frame in frames if frame.is_own), frames[0] if frames else None)

    @property
    def answers(self) -> bool:
        return self.place is not None and self.state not in _STOPPED

    @property
    def how(self) -> str:
        """What it does, in words."""
        letter = f", state {_LETTERS[self.state]}" if self.state in _LETTERS else ""
        return f"at {self.place}" if self.answers else f"does not answer: {self.state}{letter}"


def main_thread(text: str) -> list[Frame]:
    """Its frames, innermost first. faulthandler begins with the newest thread, so the main one is the last."""
    frames: list[Frame] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            frames = []
        elif match := _FRAME.fullmatch(line):
            frames.append(Frame(match["file"], int(match["line"]), match["function"]))
    return frames


def odd_one_out(found: Sequence[Found], late: Sequence[str], *, everyone: bool) -> Found | None:
    """Who is to blame: who does not answer; else who alone makes no progress; else who alone is somewhere else.

    None if that does not tell them apart.
    """
    silent = [one for one in found if not one.answers]
    if silent:
        # Stopped says more than late: a slow host may take its time.
        return min(silent, key=lambda one: one.state not in _STOPPED)
    if not everyone:
        return next((one for one in found if one.task in late), None)
    workers = [one for one in found if one.is_worker]
    return _alone(workers) or _alone([one for one in found if not one.is_worker])


def _alone(peers: Sequence[Found]) -> Found | None:
    """Who is where no other is, while the others are together; of two, who does not wait in an engine."""
    by_place = Counter(_whereabouts(one) for one in peers)
    lonely = [one for one in peers if by_place[_whereabouts(one)] == 1]
    if len(peers) > 2:
        return lonely[0] if len(lonely) == 1 else None
    outside = [one for one in lonely if one.place and _ENGINES not in one.place.file]
    return outside[0] if len(outside) == 1 and len(peers) == 2 else None


def _whereabouts(one: Found) -> tuple[str, str]:
    return (one.place.file, one.place.function) if one.place else ("", "")


def in_a_line(found: Sequence[Found], odd: Found | None, late: Sequence[str], for_s: float) -> str:
    """For the run's record."""
    if odd:
        last = f"{_last_step(odd)}, " if odd.progress else ""
        return f"{odd.task} on {odd.host} is stuck: {last}no progress for {for_s:.0f} s, {odd.how}"
    places = Counter(str(one.place) for one in found if one.is_worker and one.place)
    where = f", most of them at {places.most_common(1)[0][0]}" if len(late) > 1 and places else ""
    return f"no progress for {for_s:.0f} s: {', '.join(late)}{where}; no task is the odd one out"


def table(found: Sequence[Found], odd: Found | None) -> str:
    rows = [("", "task", "host", "process", "last step", "seconds since", "innermost own frame")]
    for one in found:
        step, since = (_last_step(one), f"{one.progress.since_s:.1f}") if one.progress else ("-", "-")
        place = str(one.place) if one.answers else one.how
        rows.append(("->" if one is odd else "", one.task, one.host, one.state, step, since, place))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def report(found: Sequence[Found], odd: Found | None, line: str) -> str:
    """The whole file: the line, the table, then all threads of all tasks."""
    parts = [line, table(found, odd)]
    parts += [f"==== {one.task} on {one.host} ====\n{one.text.strip() or one.how}" for one in found]
    return "\n\n".join(parts) + "\n"


def gathered(homes: Mapping[str, str], told: Mapping[str, Stacks], progress: Mapping[str, Progress]) -> list[Found]:
    """Of every task; where nothing was told in time, its agent did not answer."""
    nothing = Stacks("", "", "its agent has not told")
    each = [(task, host, told.get(task, nothing)) for task, host in homes.items()]
    return [Found(task, host, stacks.state, stacks.text, progress.get(task)) for task, host, stacks in each]


def _last_step(one: Found) -> str:
    assert one.progress
    if one.progress.aside:
        return f"{one.progress.aside} after step {one.progress.steps - 1}"
    return f"step {one.progress.steps - 1}" if one.progress.steps else "before its first step"
