"""The one place that knows the name of every file of a run."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from paceline.errors import StoreError, unknown


class RunPaths:
    """A run's directory. Files appear whole, by rename; what streams in is appended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.id = directory.name
        self.runs = directory.parent
        self.spec = directory / "spec.toml"
        self.result = directory / "result.json"
        self.steps = directory / "steps.parquet"
        self.samples = directory / "samples.parquet"
        self.events = directory / "events.jsonl"
        self.journal = directory / "journal.bin"
        """What was measured so far, while the run is under way or if it was killed."""
        self.lock = directory / "lock"
        """Held by the controller for as long as it lives."""
        self.logs = directory / "logs"
        self.tensorboard = directory / "tensorboard"
        self.checkpoints = directory / "checkpoints"
        self.spool = directory / "spool"
        """Scratch space of agents on this machine."""

    def checkpoint(self, update: int) -> Path:
        from paceline.train.checkpoint import file_name  # Loads NumPy, which finding runs does not need.

        return self.checkpoints / file_name(update)

    def checkpoints_newest_first(self) -> list[Path]:
        """Those to go on from, the last one first."""
        from paceline.train.checkpoint import checkpoint_updates

        try:
            names = [entry.name for entry in self.checkpoints.iterdir()]
        except OSError:
            return []
        return [self.checkpoint(update) for update in checkpoint_updates(names)]

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    @property
    def stacks(self) -> Path:
        """Where every task was when one of them made no progress."""
        return self.logs / "stacks.txt"

    def tensorboard_of(self, task: str) -> Path:
        return self.tensorboard / task

    def create_folders(self) -> None:
        for folder in (self.logs, self.tensorboard, self.checkpoints, self.spool):
            folder.mkdir()


def link_cache(runs: Path) -> Path:
    """What links were found to carry, by layout."""
    return runs / ".links.json"


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """The file is there complete or not at all."""
    temporary = path.with_name(path.name + ".partial")
    try:
        temporary.write_bytes(data)
    except OSError:
        temporary.unlink(missing_ok=True)  # Where there is no room, half a file must not take the last of it.
        raise
    os.replace(temporary, path)


def append_whole(file: BinaryIO | FileIO, data: bytes) -> None:
    """To a file without a buffer: all of it or nothing. Half of it would hide all that follows."""
    start = file.seek(0, os.SEEK_END)
    try:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        file.truncate(start)
        raise


def create_run(runs: Path, name: str) -> RunPaths:
    """A new directory `name-1`, `name-2`, …: never one that exists, whoever else is making some."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        taken = [
            int(match[1])
            for entry in runs.iterdir()
            if (match := re.fullmatch(rf"{re.escape(name)}-(\d+)", entry.name))
        ]
        number = max(taken, default=0) + 1
        while True:
            directory = runs / f"{name}-{number}"
            try:
                directory.mkdir()
            except FileExistsError:
                number += 1
                continue
            paths = RunPaths(directory)
            paths.create_folders()
            return paths
    except OSError as error:
        raise StoreError(
            f"cannot write to the runs directory {runs}: {error.strerror}; choose one with --runs"
        ) from None


def check_writable(runs: Path) -> None:
    """Refuse before anything starts if runs cannot be kept there."""
    existing = next(parent for parent in (runs, *runs.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise StoreError(f"the runs directory {runs} cannot be made: {existing} is a file; choose one with --runs")
    if not os.access(existing, os.W_OK | os.X_OK) or not _really_writable(existing):
        raise StoreError(f"cannot write to the runs directory {runs}: permission denied; choose one with --runs")


def _really_writable(directory: Path) -> bool:
    """access(2) says yes to root on a read-only file system; only trying tells."""
    probe = directory / f".paceline-probe-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def all_runs(runs: Path) -> Iterator[RunPaths]:
    """Every run below `runs`, oldest first."""
    try:
        found = [RunPaths(entry) for entry in runs.iterdir() if (entry / "spec.toml").is_file()]
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise StoreError(f"cannot read the runs directory {runs}: {error.strerror}") from None
    return iter(sorted(found, key=lambda paths: (paths.spec.stat().st_mtime_ns, paths.id)))


def find_run(runs: Path, asked: str) -> RunPaths:
    """A run by its directory, its id, a unique beginning of its id, or `latest`."""
    if "/" in asked and (Path(asked) / "spec.toml").is_file():
        return RunPaths(Path(asked))
    known = list(all_runs(runs))
    if not known:
        raise StoreError(f"no runs in {runs}: make one with paceline run, or say where they are with --runs")
    if asked == "latest":
        return known[-1]
    exact = [paths for paths in known if paths.id == asked]
    found = exact or [paths for paths in known if paths.id.startswith(asked)]
    if not found:
        raise StoreError(unknown("run", asked, [paths.id for paths in known[-8:]]))
    if len(found) > 1:
        raise StoreError(f"'{asked}' fits {len(found)} runs ({', '.join(p.id for p in found[:4])}, …): say more of it")
    return found[0]


def runs_of_sweep(runs: Path, name: str) -> list[RunPaths]:
    return [paths for paths in all_runs(runs) if re.fullmatch(rf"{re.escape(name)}-\d+", paths.id)]


def find_runs(runs: Path, asked: Sequence[str]) -> list[RunPaths]:
    """Runs by id or, where a name is not one, all runs of the sweep of that name."""
    found: dict[str, RunPaths] = {}
    for name in asked:
        for paths in runs_of_sweep(runs, name) or [find_run(runs, name)]:
            found[paths.id] = paths
    return list(found.values())
