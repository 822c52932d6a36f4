"""Reads the stacks of stuck tasks (text written by faulthandler) and finds the task that causes the stall. Pure."""

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
    def is_user_or_paceline(self) -> bool:
        """Whether the frame is in Paceline's or the user's code, not in a library."""
        if "/paceline/" in self.file:
            return True
        return not ("-packages/" in self.file or "/lib/python" in self.file or self.file.startswith("<"))

    def __str__(self) -> str:
        _, ours, inside = self.file.rpartition("/paceline/")
        return f"{'paceline/' if ours else ''}{inside if ours else self.file}:{self.line} {self.function}"


class TaskStacks(msgspec.Struct, frozen=True):
    """The state of one task when its stacks were requested."""

    task: str
    host: str
    state: str
    """State of its process as the kernel reports it, e.g. sleeping, stopped."""
    text: str = ""
    """Stacks of all its threads as faulthandler writes them; empty if the task did not answer."""
    progress: Progress | None = None
    """None for a parameter server, which makes no steps."""

    @property
    def is_worker(self) -> bool:
        return self.progress is not None

    @property
    def location(self) -> Frame | None:
        """The innermost frame of the main thread that is not in a library."""
        frames = main_thread(self.text)
        return next((frame for frame in frames if frame.is_user_or_paceline), frames[0] if frames else None)

    @property
    def responds(self) -> bool:
        return self.location is not None and self.state not in _STOPPED

    @property
    def activity(self) -> str:
        """What the task is doing, for a person to read."""
        letter = f", state {_LETTERS[self.state]}" if self.state in _LETTERS else ""
        return f"at {self.location}" if self.responds else f"does not answer: {self.state}{letter}"


def main_thread(text: str) -> list[Frame]:
    """Frames of the main thread, innermost first. faulthandler writes the newest thread first and the main one last."""
    frames: list[Frame] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            frames = []
        elif match := _FRAME.fullmatch(line):
            frames.append(Frame(match["file"], int(match["line"]), match["function"]))
    return frames


def odd_one_out(tasks: Sequence[TaskStacks], late: Sequence[str], *, everyone: bool) -> TaskStacks | None:
    """The task that causes the stall, or None if no task differs from the others.

    It is a task that does not respond; else the only one without progress; else the only worker that is in another
    function than all other workers.
    """
    silent = [task_stacks for task_stacks in tasks if not task_stacks.responds]
    if silent:
        # A stopped process is a surer sign than a late answer, which a slow host may give too.
        return min(silent, key=lambda task_stacks: task_stacks.state not in _STOPPED)
    if not everyone:
        return next((task_stacks for task_stacks in tasks if task_stacks.task in late), None)
    workers = [task_stacks for task_stacks in tasks if task_stacks.is_worker]
    return _only_one_elsewhere(workers) or _only_one_elsewhere(
        [task_stacks for task_stacks in tasks if not task_stacks.is_worker]
    )


def _only_one_elsewhere(peers: Sequence[TaskStacks]) -> TaskStacks | None:
    """The only task in another function than all others; of two tasks, the one that is not waiting in an engine."""
    by_place = Counter(_function_of(task_stacks) for task_stacks in peers)
    alone = [task_stacks for task_stacks in peers if by_place[_function_of(task_stacks)] == 1]
    if len(peers) > 2:
        return alone[0] if len(alone) == 1 else None
    outside = [
        task_stacks for task_stacks in alone if task_stacks.location and _ENGINES not in task_stacks.location.file
    ]
    return outside[0] if len(outside) == 1 and len(peers) == 2 else None


def _function_of(task_stacks: TaskStacks) -> tuple[str, str]:
    return (task_stacks.location.file, task_stacks.location.function) if task_stacks.location else ("", "")


def summary_line(tasks: Sequence[TaskStacks], odd: TaskStacks | None, late: Sequence[str], for_s: float) -> str:
    """One line for the run's incident and reason."""
    if odd:
        last = f"{_last_step(odd)}, " if odd.progress else ""
        return f"{odd.task} on {odd.host} is stuck: {last}no progress for {for_s:.0f} s, {odd.activity}"
    places = Counter(
        str(task_stacks.location) for task_stacks in tasks if task_stacks.is_worker and task_stacks.location
    )
    where = f", most of them at {places.most_common(1)[0][0]}" if len(late) > 1 and places else ""
    return f"no progress for {for_s:.0f} s: {', '.join(late)}{where}; the stacks do not show which task causes it"


def table(tasks: Sequence[TaskStacks], odd: TaskStacks | None) -> str:
    rows = [("", "task", "host", "process", "last step", "seconds since", "innermost frame outside libraries")]
    for task_stacks in tasks:
        step, since = (
            (_last_step(task_stacks), f"{task_stacks.progress.since_s:.1f}") if task_stacks.progress else ("-", "-")
        )
        location = str(task_stacks.location) if task_stacks.responds else task_stacks.activity
        rows.append(
            (
                "->" if task_stacks is odd else "",
                task_stacks.task,
                task_stacks.host,
                task_stacks.state,
                step,
                since,
                location,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def report(tasks: Sequence[TaskStacks], odd: TaskStacks | None, line: str) -> str:
    """The text of logs/stacks.txt: the line, the table, then the stacks of all threads of all tasks."""
    parts = [line, table(tasks, odd)]
    parts += [
        f"==== {task_stacks.task} on {task_stacks.host} ====\n{task_stacks.text.strip() or task_stacks.activity}"
        for task_stacks in tasks
    ]
    return "\n\n".join(parts) + "\n"


def combine(
    task_hosts: Mapping[str, str], received: Mapping[str, Stacks], progress: Mapping[str, Progress]
) -> list[TaskStacks]:
    """TaskStacks of every task, whether or not its agent answered in time."""
    no_answer = Stacks("", "", "its agent did not answer")
    each = [(task, host, received.get(task, no_answer)) for task, host in task_hosts.items()]
    return [TaskStacks(task, host, stacks.state, stacks.text, progress.get(task)) for task, host, stacks in each]


def _last_step(task_stacks: TaskStacks) -> str:
    assert task_stacks.progress
    if task_stacks.progress.busy:
        return f"{task_stacks.progress.busy} after step {task_stacks.progress.steps - 1}"
    return f"step {task_stacks.progress.steps - 1}" if task_stacks.progress.steps else "before its first step"
