"""What a list of runs shows of each run, and which runs it shows."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from paceline.errors import SpecError, unknown
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun
from paceline.store.tags import tags_of

RUNNING = "running"
"""The status of a run that is being made. It has no result yet."""
STATUSES = ("ok", "failed", "diverged", "aborted", RUNNING)
_AGE = re.compile(r"(\d{1,6}(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    run: str
    started_at: str
    status: str
    workload: str
    title: str
    """Name of the workload, with its variant."""
    engine: str
    strategy: str
    layout: str
    tags: tuple[str, ...] = ()
    result: Result | None
    """None of a run that is being made."""

    @property
    def started(self) -> datetime | None:
        """When the run was started; None if it is not known."""
        try:
            started = datetime.fromisoformat(self.started_at)
        except ValueError:
            return None
        return started if started.tzinfo else started.astimezone()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are listed; a field that is empty allows every run."""

    status: tuple[str, ...] = ()
    workload: tuple[str, ...] = ()
    engine: tuple[str, ...] = ()
    strategy: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    name: str = ""
    """Text that the id contains."""
    since: datetime | None = None

    def __post_init__(self) -> None:
        for status in self.status:
            if status not in STATUSES:
                raise SpecError(unknown("status", status, STATUSES))

    def allows(self, run: ListedRun) -> bool:
        return (
            self.name in run.run
            and all(
                not allowed or value in allowed
                for allowed, value in (
                    (self.status, run.status),
                    (self.engine, run.engine),
                    (self.strategy, run.strategy),
                )
            )
            and (not self.tag or not set(self.tag).isdisjoint(run.tags))
            and (not self.workload or not {run.workload, run.title}.isdisjoint(self.workload))
            and (self.since is None or (run.started is not None and run.started >= self.since))
        )


def finished_run(result: Result) -> ListedRun:
    """The line of a run that has a result."""
    return ListedRun(
        run=result.run,
        started_at=result.started_at,
        status=result.status,
        workload=result.workload,
        title=result.title,
        engine=result.engine,
        strategy=result.strategy,
        layout=result.layout,
        tags=result.tags,
        result=result,
    )


def run_in_progress(paths: RunPaths) -> ListedRun:
    """The line of a run that is being made; StoreError if its header cannot be read."""
    header = StoredRun(paths).header
    workload = header.spec.workload
    return ListedRun(
        run=paths.id,
        started_at=header.started_at,
        status=RUNNING,
        workload=workload,
        title=f"{workload}:{header.size}" if header.size else workload,
        engine=header.spec.engine,
        strategy=header.spec.strategy,
        layout=header.layout,
        tags=tags_of(paths, header.spec.tag),
        result=None,
    )


def newest(runs: Iterable[ListedRun], wanted: RunFilter, limit: int | None) -> Iterator[ListedRun]:
    """The first `limit` runs that the filter allows; `runs` are read only as far as needed."""
    found = 0
    for run in runs:
        if limit is not None and found >= limit:
            return
        if wanted.allows(run):
            found += 1
            yield run


def parse_since(text: str, now: datetime) -> datetime:
    """`2h` before now, or a date with or without a time: `2026-11-17`, `2026-11-17 10:30`; SpecError otherwise.

    A time without a zone is local time.
    """
    text = text.strip()
    try:
        if age := _AGE.fullmatch(text):
            return now - timedelta(**{_UNITS[age[2]]: float(age[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise SpecError(
            f"--since '{text}' is not understood: write an age such as 30m, 2h, 3d or 1w, or a date such as 2026-11-17"
        ) from None
