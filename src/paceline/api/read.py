"""`paceline.load`, `paceline.compare` and `paceline.write_report`: what Python code does with stored runs."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from paceline.analyze.load import load_readable
from paceline.api.comparison import RunComparison, compare_results
from paceline.api.results import Results, as_results
from paceline.errors import SpecError
from paceline.exports.write import Request, export_runs
from paceline.pictures.run_pictures import PICTURES, write_run_pictures
from paceline.report.write import parse_formats
from paceline.report.write import write_report as write_pages
from paceline.spec.experiment import OPTIONS
from paceline.store.paths import RunPaths, are_several_sweeps, find_runs
from paceline.store.result import Result

RunOrName = str | Path | Result
"""A run: its result, its id, the beginning of its id, its directory, `latest`, or the name of a sweep."""
_RUNS: str = OPTIONS["runs"].default


def load(*names: str | Path, runs: str | Path = _RUNS) -> Results:
    """The results of stored runs, in the order of the names.

    Runs that are damaged are left out with a warning; StoreError if none can be read.

    Args:
        names: Ids of runs, beginnings of ids, directories of runs, names of sweeps, or `latest`.
        runs: Directory that holds the runs.
    """
    return as_results(load_readable(select(names, runs), _warn))


def compare(
    *runs_or_names: RunOrName | Sequence[RunOrName], base: RunOrName | None = None, runs: str | Path = _RUNS
) -> RunComparison:
    """Runs compared with each other. Runs with the same options are the repeats of one configuration.

    Args:
        runs_or_names: Results, lists of results, or what `load` takes.
        base: The run or sweep to compare the others with. Default: the first configuration.
        runs: Directory that holds the runs that are given by name.
    """
    given = flatten(runs_or_names)
    names = [str(item) for item in given if not isinstance(item, Result)]
    by_sweep = are_several_sweeps(Path(runs), names, find_runs(Path(runs), names)) if names else None
    results = _results(given, runs)
    if base is None or isinstance(base, Result):
        return compare_results(results, base, by_sweep=by_sweep)
    (first, *_others) = find_runs(Path(runs), [str(base)])
    known = {str(Path(result.dir).resolve()) for result in results}
    if str(first.directory.resolve()) not in known:
        results += load(base, runs=runs)
    return compare_results(results, str(first.directory), by_sweep=by_sweep)


def write_report(
    *runs_or_names: RunOrName | Sequence[RunOrName],
    out: str | Path | None = None,
    format: str | Sequence[str] = "html",
    runs: str | Path = _RUNS,
) -> list[Path]:
    """Write a report of runs, and return the paths of its files.

    Args:
        runs_or_names: Results, lists of results, or what `load` takes.
        out: File to write. Default: NAME-report.html in the current directory.
        format: html, md, csv, json, or png and svg for pictures; several formats write several files.
        runs: Directory that holds the runs that are given by name.
    """
    formats = parse_formats(format if isinstance(format, str) else ",".join(format), *PICTURES)
    given = flatten(runs_or_names)
    selected = select([item.dir if isinstance(item, Result) else item for item in given], runs)
    names = [Path(str(item)).name for item in given if not isinstance(item, Result)]
    title = selected[0].id if len(selected) == 1 else names[0] if len(given) == len(names) == 1 else "comparison"
    target = Path(out) if out is not None else None
    apart = len({paths.directory.resolve().parent for paths in selected}) > 1
    written = []
    pages, pictures = [[kind for kind in formats if (kind in PICTURES) == wanted] for wanted in (False, True)]
    if pages:
        written += write_pages(title, selected, target, pages, by_sweep=apart, on_message=_warn)
    if pictures:
        written += write_run_pictures(title, selected, target, pictures, _warn)
    return written


def export(
    *runs_or_names: RunOrName | Sequence[RunOrName],
    format: str,
    out: str | Path | None = None,
    project: str = "paceline",
    runs: str | Path = _RUNS,
) -> list[str]:
    """Write runs for other programs; returns a line about each file or run that was written, or the text itself.

    Args:
        runs_or_names: Results, lists of results, or what `load` takes.
        format: perfetto (a trace), mlflow, wandb (offline), or llm (a short text for assistants).
        out: File, directory or address to write to, as in `paceline export`.
        project: Name of the experiment of MLflow or of the project of W&B.
        runs: Directory that holds the runs that are given by name.
    """
    selected = select([item.dir if isinstance(item, Result) else item for item in flatten(runs_or_names)], runs)
    return export_runs(selected, format, Request(out=None if out is None else str(out), project=project))


def select(names: Iterable[str | Path], runs: str | Path) -> list[RunPaths]:
    """The runs with these names; SpecError if no name is given."""
    texts = [str(name) if isinstance(name, Path) else name for name in names]
    for text in texts:
        if not isinstance(text, str):
            raise SpecError(f"a run is given as {type(text).__name__}: give an id, a directory or a result")
    if not texts:
        raise SpecError("no run is given: name one, e.g. latest (`paceline ls` lists them)")
    # A path of one word would be taken for an id.
    return find_runs(Path(runs), [_as_directory(text) for text in texts])


def flatten(items: Iterable[RunOrName | Sequence[RunOrName]]) -> list[RunOrName]:
    """The runs of all lists and those given by themselves."""
    flat: list[RunOrName] = []
    for item in items:
        flat += [item] if isinstance(item, str | Path | Result) or not isinstance(item, Sequence) else list(item)
    return flat


def _as_directory(text: str) -> str:
    return f"./{text}" if "/" not in text and (Path(text) / "spec.toml").is_file() else text


def _results(given: Sequence[RunOrName], runs: str | Path) -> Results:
    if not given:
        raise SpecError("no run is given: name one, e.g. latest (`paceline ls` lists them)")
    results = Results()
    for item in given:
        results += as_results([item]) if isinstance(item, Result) else load(item, runs=runs)
    return results


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=4)
