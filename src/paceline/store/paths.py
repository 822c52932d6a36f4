"""The paths of all files of a run, how they are written, and how runs are found. No other module names these files."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from paceline.errors import StoreError, unknown

_SHIPPED_CODE = ".workloads"


class RunPaths:
    """The paths inside the directory of a run.

    Files that are written once appear complete, by rename. Events, logs and the journal are appended to.
    """

    def __init__(self, directory: Path) -> None:
        if directory.name in ("", ".."):
            directory = directory.resolve()  # `.` and `..` have no name, which is the id of the run.
        self.directory = directory
        self.id = directory.name
        self.runs = directory.parent
        self.spec = directory / "spec.toml"
        self.result = directory / "result.json"
        self.tags = directory / "tags.json"
        """The tags of the run. It exists only if they were changed after the start of the run."""
        self.steps = directory / "steps.parquet"
        self.samples = directory / "samples.parquet"
        self.events = directory / "events.jsonl"
        self.journal = directory / "journal.bin"
        """The measurements so far. It exists only while the run is in progress, or if its controller was killed."""
        self.lock = directory / "lock"
        """The controller holds this lock as long as it lives."""
        self.logs = directory / "logs"
        self.tensorboard = directory / "tensorboard"
        self.checkpoints = directory / "checkpoints"
        self.profiles = directory / "profiles"
        """Stack samples of the ranks of a user's script."""
        self.spool = directory / "spool"
        """Scratch space of the controller, and of agents on this machine."""
        self.live_verdict = self.spool / "bottleneck.json"

    def checkpoint(self, update: int) -> Path:
        from paceline.train.checkpoint import file_name  # Imported here because it loads NumPy.

        return self.checkpoints / file_name(update)

    def checkpoints_newest_first(self) -> list[Path]:
        """The checkpoints of the run, the newest first."""
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
        """The stacks of all tasks, written when one of them made no progress."""
        return self.logs / "stacks.txt"

    def tensorboard_of(self, task: str) -> Path:
        return self.tensorboard / task

    def profile_of(self, task: str) -> Path:
        """The folder of the stack samples of a rank."""
        return self.profiles / task

    def create_folders(self) -> None:
        for folder in (self.logs, self.tensorboard, self.checkpoints, self.spool):
            folder.mkdir()


def link_cache(runs: Path) -> Path:
    """The file that caches the measured links between hosts."""
    return runs / ".links.json"


def shipped_code_folder(runs: Path, name: str) -> Path:
    """The folder of a workload or function that was defined in a notebook or script; it is made if necessary."""
    folder = runs / _SHIPPED_CODE / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(runs, error) from None
    return folder


def shipped_name(path: str) -> str | None:
    """The name of a workload that was defined in a notebook or script; None if `path` is something else."""
    parts = Path(path).parts
    return Path(path).stem if len(parts) > 2 and parts[-3] == _SHIPPED_CODE else None


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write a file so that it exists complete or not at all."""
    with writing_whole(path) as file:
        file.write(data)


@contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which appears under its name when it is complete, and not at all after an error."""
    temporary = path.with_name(path.name + ".partial")
    temporary.unlink(missing_ok=True)
    try:
        # Exclusive: a link or a named pipe that somebody puts there is not written to.
        with temporary.open("xb") as file:
            yield file
    except BaseException:
        temporary.unlink(missing_ok=True)  # Free the space of the incomplete file: the disk may be full.
        raise
    os.replace(temporary, path)


def append_whole(file: BinaryIO | FileIO, data: bytes) -> None:
    """Append all of the data or nothing to an unbuffered file.

    Part of an entry would make everything after it unreadable.
    """
    start = file.seek(0, os.SEEK_END)
    try:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        file.truncate(start)
        raise


def create_run(runs: Path, name: str) -> RunPaths:
    """Create the directory `name-1`, `name-2`, …: the next free number, also if other processes create runs now."""
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
        raise _not_writable(runs, error) from None


def _not_writable(runs: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write to the runs directory {runs}: {error.strerror}; choose another directory with --runs"
    )


def check_writable(runs: Path) -> None:
    """Raise StoreError if runs cannot be written to this directory; called before anything is started."""
    existing = next(parent for parent in (runs, *runs.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise StoreError(
            f"cannot create the runs directory {runs}: {existing} is a file; choose another directory with --runs"
        )
    if not os.access(existing, os.W_OK | os.X_OK) or not _can_create_file(existing):
        raise StoreError(
            f"cannot write to the runs directory {runs}: permission denied; choose another directory with --runs"
        )


def _can_create_file(directory: Path) -> bool:
    """Whether a file can be created. access(2) is not enough: it allows root to write to a read-only file system."""
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
        existing = [RunPaths(entry) for entry in runs.iterdir() if (entry / "spec.toml").is_file()]
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise StoreError(f"cannot read the runs directory {runs}: {error.strerror}") from None
    return iter(sorted(existing, key=lambda paths: (paths.spec.stat().st_mtime_ns, paths.id)))


def find_run(runs: Path, name: str) -> RunPaths:
    """A run by its directory, its id, a unique beginning of its id, or `latest`.

    A name without a slash is looked for in `runs` first, and then as a directory in the current one.
    """
    is_directory = (Path(name) / "spec.toml").is_file()
    if "/" in name and is_directory:
        return RunPaths(Path(name))
    known = list(all_runs(runs))
    if is_directory and name != "latest" and not any(paths.id.startswith(name) for paths in known):
        return RunPaths(Path(name))
    if not known:
        raise StoreError(f"no runs in {runs}: start one with `paceline run`, or choose another directory with --runs")
    if name == "latest":
        return known[-1]
    exact = [paths for paths in known if paths.id == name]
    matches = exact or [paths for paths in known if paths.id.startswith(name)]
    if not matches:
        raise StoreError(unknown("run", name, [paths.id for paths in known], most=8))
    if len(matches) > 1:
        ids = ", ".join(paths.id for paths in matches[:4]) + (", …" if len(matches) > 4 else "")
        raise StoreError(f"'{name}' is the beginning of {len(matches)} run ids ({ids}): give more characters")
    return matches[0]


def runs_of_sweep(runs: Path, name: str) -> list[RunPaths]:
    """The runs of a sweep, which are named after it: `name-1`, `name-2`, …, oldest first.

    A name such as `other/name` is that of a sweep in another runs directory.
    """
    directory, _, sweep = name.rpartition("/")
    pattern = re.compile(rf"{re.escape(sweep)}-\d+")
    return [paths for paths in all_runs(Path(directory) if directory else runs) if pattern.fullmatch(paths.id)]


def find_runs(runs: Path, names: Sequence[str]) -> list[RunPaths]:
    """All runs of the sweeps with these names; a name that is not a sweep is looked up as a run. No run is repeated."""
    # Ids repeat in different runs directories, and a directory can be named in several ways.
    runs_by_directory: dict[Path, RunPaths] = {}
    for name in names:
        for paths in runs_of_sweep(runs, name) or [find_run(runs, name)]:
            runs_by_directory.setdefault(paths.directory.resolve(), paths)
    return list(runs_by_directory.values())


def are_several_sweeps(runs: Path, names: Sequence[str], selected: Sequence[RunPaths]) -> bool:
    """Whether several sweeps were named, or the selected runs are in several runs directories.

    Then equal configurations of different sweeps are compared with each other, and are not repeats of one.
    """
    sweeps = {name for name in names if runs_of_sweep(runs, name)}
    return len(sweeps) > 1 or len({paths.directory.resolve().parent for paths in selected}) > 1
