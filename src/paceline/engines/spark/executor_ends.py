"""Why executors of a Spark worker ended, from the log of the worker, which starts a new executor for each that ends."""

import re
import signal
from pathlib import Path

from paceline.engines.spark.environment import SparkHome

_ENDED = re.compile(
    r"Executor (\S+)/(\d+) finished with state (EXITED|FAILED|LOST)(?: message (.*?))?(?: exitStatus (\d+))?$"
)
_SIGNAL_BASE = 128
"""A process that a signal ended has this exit code plus the number of the signal."""
_SAYS_WHY = re.compile(r"^(Error:?|Exception|Caused by|java\.)|Error\b.*:|Exception\b.*:|\bERROR\b")
_LOG_BYTES = 20_000
_OUT_OF_MEMORY_CODE = 52
"""The exit code of an executor that is out of memory."""
_OUT_OF_MEMORY = f"exit code {_OUT_OF_MEMORY_CODE} (out of memory)"


class ExecutorEnds:
    """Reads the log of one worker while Spark writes it."""

    def __init__(self, home: SparkHome) -> None:
        self._log, self._work = home.executor_log, home.work
        self._position, self._rest = 0, ""

    def new(self) -> list[str]:
        """Why executors have ended since the last call."""
        try:
            with self._log.open(encoding="utf-8", errors="replace") as log:
                log.seek(self._position)
                text = log.read()
                self._position = log.tell()
        except FileNotFoundError:  # Written once there is something to write.
            return []
        *lines, self._rest = (self._rest + text).split("\n")
        return [self._why(*match.groups()) for line in lines if (match := _ENDED.search(line))]

    def _why(self, application: str, number: str, state: str, message: str | None, code: str | None) -> str:
        text = describe_code(int(code)) if code else message or f"state {state}"
        if code and int(code) > _SIGNAL_BASE:
            return text
        said = first_error(self._work / application / number / "stderr")
        return f"{text}: {said}" if said else text


def describe_code(code: int) -> str:
    """What an exit code of an executor says."""
    if code == _OUT_OF_MEMORY_CODE:
        return _OUT_OF_MEMORY
    try:
        return f"exit code {code} (killed by {signal.Signals(code - _SIGNAL_BASE).name})"
    except ValueError:
        return f"exit code {code}"


def is_out_of_memory(why: str) -> bool:
    """Whether an executor ended for lack of memory, by what `ExecutorEnds` says."""
    return why.startswith(_OUT_OF_MEMORY)


def first_error(log: Path) -> str:
    """The first line of a log that names an error; empty if none does."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LOG_BYTES)
    except OSError:
        return ""
    return next((line.strip()[:200] for line in text.splitlines() if _SAYS_WHY.search(line)), "")
