"""The list of all runs of a directory, read quickly: of each run only what is shown, and only if it has changed."""

import re
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import StoreError
from paceline.messages import DECODE_ERRORS
from paceline.present.bottleneck import short_bottleneck
from paceline.store.in_progress import is_in_progress
from paceline.store.paths import RunPaths, all_runs
from paceline.store.regular_file import read_regular
from paceline.store.result import Reached
from paceline.store.run import StoredRun
from paceline.store.tags import tags_of
from paceline.store.verdict import Verdict

COLUMNS = (
    "run", "status", "started", "workload", "engine", "strategy", "layout", "batch", "hosts", "to_target_s",
    "train_s", "examples_per_s", "accuracy", "bottleneck", "tags", "problem",
)  # fmt: skip
_MAX_RESULT_BYTES = 64 * 2**20
Row = list[Any]


class _Final(msgspec.Struct, frozen=True):
    accuracy: float | None = None


class _Result(msgspec.Struct, kw_only=True):
    """The part of a result that the list shows. It is decoded many times faster than all of it."""

    workload: str
    engine: str
    strategy: str
    layout: str
    batch: int
    status: str
    started_at: str
    train_s: float
    examples_per_s: float
    verdict: Verdict
    hosts_kind: str = ""
    size: str = ""
    reached: Reached | None = None
    final: _Final = _Final()
    tags: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(_Result)


class RunList:
    """Remembers the rows of finished runs, of which only the tags may change."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._rows: dict[str, tuple[tuple[int, int], Row]] = {}

    def rows(self) -> list[Row]:
        """One row per run, the newest first, in the order of COLUMNS."""
        found = {paths.id: self._row(paths) for paths in all_runs(self.runs)}
        for gone in self._rows.keys() - found.keys():
            del self._rows[gone]
        return list(reversed(found.values()))

    def find(self, names: list[str], *, sweeps: bool = True) -> list[RunPaths]:
        """The runs with these ids; with `sweeps`, a name that is not an id is that of a sweep. StoreError if none is.

        Names are compared with those in the directory and never used as a path.
        """
        known = {paths.id: paths for paths in all_runs(self.runs)}
        selected: dict[str, RunPaths] = {}
        for name in names:
            matches = [name] if name in known else [run for run in known if sweeps and sweep_of(run) == name]
            if not matches:
                raise StoreError(f"there is no run or sweep '{name}' in {self.runs}")
            selected |= {run: known[run] for run in matches}
        return list(selected.values())

    def _row(self, paths: RunPaths) -> Row:
        try:
            changed_ns = paths.result.stat().st_mtime_ns, _changed_ns(paths.tags)
        except OSError:
            return _unfinished(paths)
        known = self._rows.get(paths.id)
        if known is None or known[0] != changed_ns:
            known = (changed_ns, _finished(paths))
            self._rows[paths.id] = known
        return known[1]


def _changed_ns(path: Path) -> int:
    """When a file was changed; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def sweep_of(run: str) -> str:
    """The name of the sweep that a run belongs to: its id without the number."""
    return re.sub(r"-\d+$", "", run)


def _finished(paths: RunPaths) -> Row:
    try:
        result = _DECODER.decode(read_regular(paths.result, _MAX_RESULT_BYTES))
    except (OSError, *DECODE_ERRORS) as error:
        return _damaged(paths, str(error))
    target = result.reached if result.reached and result.reached.rule.startswith(("loss", "accuracy")) else None
    return [
        paths.id,
        result.status,
        result.started_at,
        f"{result.workload}:{result.size}" if result.size else result.workload,
        result.engine,
        result.strategy,
        result.layout,
        result.batch,
        result.hosts_kind,
        target.at_s if target else None,
        result.train_s,
        result.examples_per_s or None,
        result.final.accuracy,
        short_bottleneck([result.verdict]),
        " ".join(tags_of(paths, result.tags)),
        "",
    ]


def _unfinished(paths: RunPaths) -> Row:
    """A run that is being made, or whose controller was killed: then its result is computed when it is opened."""
    try:
        header = StoredRun(paths).header
    except StoreError as error:
        return _damaged(paths, str(error))
    spec = header.spec
    title = f"{spec.workload}:{header.size}" if header.size else spec.workload
    status = "running" if is_in_progress(paths) else "aborted"
    row: Row = [paths.id, status, header.started_at, title, spec.engine, spec.strategy, header.layout]
    tags = " ".join(tags_of(paths, spec.tag))
    return [*row, spec.batch if header.trains else 0, spec.hosts, None, None, None, None, "", tags, ""]


def _damaged(paths: RunPaths, problem: str) -> Row:
    return [paths.id, "damaged", "", *[""] * 4, 0, "", None, None, None, None, "", "", problem[:300]]
