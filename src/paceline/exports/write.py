"""Writes runs in the formats of other programs: one function for each format, by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline import units
from paceline.analyze.load import load_result
from paceline.errors import SpecError, StoreError, unknown
from paceline.exports.assistant_text import assistant_text
from paceline.exports.chrome_trace import WHOLE_RUN, Period, write_trace
from paceline.exports.to_mlflow import write_mlflow
from paceline.exports.to_wandb import write_wandb
from paceline.store.paths import RunPaths, write_whole
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors

Loaded = Sequence[tuple[StoredRun, Result]]


class Request(NamedTuple):
    """What the user asked for beside the format and the runs."""

    out: str | None = None
    project: str = "paceline"
    period: Period = WHOLE_RUN


def _perfetto(runs: Loaded, request: Request) -> list[str]:
    if request.out and len(runs) > 1:
        raise SpecError(f"--out is one file, but {len(runs)} runs are given: leave it out, or export one run")
    targets = [Path(request.out or f"{result.run}.perfetto.json") for _, result in runs]
    for target in targets:
        _check(target)
    for (stored, result), target in zip(runs, targets, strict=True):
        try:
            with as_store_errors(result.run):
                write_trace(stored, result, target, request.period)
        except OSError as error:
            raise _cannot_write(target, error) from None
    return [str(target) for target in targets]


def _assistant(runs: Loaded, request: Request) -> list[str]:
    text = assistant_text([result for _, result in runs])
    if request.out is None:
        return [text.rstrip()]
    target = Path(request.out)
    _check(target)
    try:
        write_whole(target, text.encode())
    except OSError as error:
        raise _cannot_write(target, error) from None
    return [str(target)]


def _mlflow(runs: Loaded, request: Request) -> list[str]:
    return write_mlflow(runs, request.out, request.project)


def _wandb(runs: Loaded, request: Request) -> list[str]:
    return write_wandb(runs, request.out, request.project)


_WRITERS: dict[str, Callable[[Loaded, Request], list[str]]] = {
    "perfetto": _perfetto,
    "mlflow": _mlflow,
    "wandb": _wandb,
    "llm": _assistant,
}
FORMATS = tuple(_WRITERS)
WITH_PERIOD = ("perfetto",)
"""Formats of which a part of the training can be exported."""


def parse_period(first: str | None, last: str | None) -> Period:
    """The part of the training between two times, such as 10s and 1m; all of it if none is given."""
    start = units.seconds(first) if first is not None else WHOLE_RUN[0]
    end = units.seconds(last) if last is not None else WHOLE_RUN[1]
    if end <= start:
        raise SpecError(f"--to {last} is not after --from {first}: give a later time")
    return start, end


def export_runs(runs: Sequence[RunPaths], format_: str, request: Request) -> list[str]:
    """Write the runs; returns a line about each file or run that was written, or the text itself."""
    if format_ not in _WRITERS:
        raise SpecError(unknown("format", format_, FORMATS))
    if request.period != WHOLE_RUN and format_ not in WITH_PERIOD:
        raise SpecError(f"--from and --to are for the format {' and '.join(WITH_PERIOD)}: remove them")
    return _WRITERS[format_]([(StoredRun(paths), load_result(paths)) for paths in runs], request)


def _check(target: Path) -> None:
    """Raise an error before any work if the file cannot be created there."""
    if target.is_dir():
        raise StoreError(f"--out {target} is a directory; give the name of a file")
    if not target.parent.is_dir():
        raise StoreError(f"--out {target}: directory {target.parent} does not exist; create it or choose another")


def _cannot_write(target: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot write {target}: {error.strerror}; choose another file with --out")
