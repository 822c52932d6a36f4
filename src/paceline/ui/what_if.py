"""Predictions for other settings of runs, in a process of their own: they compute for seconds.

`python -m paceline.ui.what_if` is that process: it reads the directory and the ids of the runs as JSON from stdin, and
writes the blocks of the page as JSON to stdout.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.errors import PacelineError, StoreError
from paceline.store.paths import RunPaths

_BUDGET_S = 15.0
"""CPU seconds; a report file has less."""
_TIMEOUT_S = 120.0
_KEPT = 8


class _Request(msgspec.Struct, frozen=True):
    runs: str
    ids: list[str]


class _Answer(msgspec.Struct, frozen=True):
    blocks: list[dict[str, object]] = []
    error: str = ""


class WhatIfs:
    """Makes one prediction at a time, and remembers the last ones."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._answers: dict[tuple[str, ...], _Answer] = {}

    async def blocks(self, runs: Path, selected: Sequence[RunPaths]) -> list[dict[str, object]]:
        """The blocks of the section; StoreError if they cannot be made."""
        key = tuple(f"{paths.id} {_changed_ns(paths)}" for paths in selected)
        async with self._lock:
            if key not in self._answers:
                answer = await _ask(_Request(str(runs), [paths.id for paths in selected]))
                kept = list(self._answers.items())[-_KEPT + 1 :]
                self._answers = dict([*kept, (key, answer)])
        if error := self._answers[key].error:
            raise StoreError(error)
        return self._answers[key].blocks


def _changed_ns(paths: RunPaths) -> int:
    try:
        return paths.result.stat().st_mtime_ns
    except OSError:
        return 0


async def _ask(request: _Request) -> _Answer:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "paceline.ui.what_if"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(msgspec.json.encode(request)), _TIMEOUT_S)
        return msgspec.json.decode(output, type=_Answer)
    except (TimeoutError, msgspec.MsgspecError):
        return _Answer(error="the prediction failed: try paceline predict, which says why")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def answer(request: _Request) -> _Answer:
    """The blocks for these runs, made in this process."""
    from paceline.report.build import build
    from paceline.report.what_if import what_if_blocks

    selected = [RunPaths(Path(request.runs) / run) for run in request.ids]
    try:
        report = build("what-if", selected)
    except PacelineError as error:
        return _Answer(error=str(error))
    paths = {str(run.directory): run for run in selected}
    blocks = what_if_blocks(report.groups, report.best_configurations, paths, _BUDGET_S)
    return _Answer(blocks=msgspec.to_builtins(blocks))


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    sys.stdout.buffer.write(msgspec.json.encode(answer(request)))


if __name__ == "__main__":
    main()
