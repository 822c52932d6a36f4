"""Writes the pictures of `paceline report`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from paceline.analyze.load import load_readable
from paceline.pictures.draw import SUFFIXES as PICTURES
from paceline.pictures.draw import check_available, write_figures
from paceline.pictures.run_figures import figures_of_runs
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun

__all__ = ["PICTURES", "write_run_pictures"]


def write_run_pictures(
    title: str, runs: Sequence[RunPaths], out: Path | None, suffixes: Sequence[str], on_message: Callable[[str], None]
) -> list[Path]:
    """Write the figures for which the runs have data: OUT-hosts.png and so on; returns the files."""
    check_available()
    stored = {str(run.directory): StoredRun(run) for run in runs}
    figures = figures_of_runs(load_readable(runs, on_message), stored)
    base = out or Path(f"{title}-report")
    name = base.stem if base.suffix.lstrip(".") in suffixes else base.name
    return write_figures(figures, base.parent, name, suffixes)
