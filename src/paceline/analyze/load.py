"""Loads the result of a run, also of one whose controller was killed."""

from collections.abc import Callable, Iterable

from paceline.analyze.summary import summarize
from paceline.errors import StoreError
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors, recovering


def load_result(paths: RunPaths) -> Result:
    """The stored result. If the controller was killed before it wrote one, the result is computed now and stored.

    `run` and `dir` are those of the directory that was read, which may have been copied or renamed since it was made.
    StoreError if the run is still in progress, or if its files are damaged.
    """
    result = _stored_or_computed(paths)
    result.run, result.dir = paths.id, str(paths.directory)
    return result


def _stored_or_computed(paths: RunPaths) -> Result:
    stored = StoredRun(paths)
    if result := stored.result:
        return result
    with recovering(paths):
        # Another reader may have written it while this one waited for the lock.
        if result := stored.result:
            return result
        with as_store_errors(paths.id):
            result = summarize(stored)
        stored.write_result(result)
    return result


def load_readable(runs: Iterable[RunPaths], on_message: Callable[[str], None]) -> list[Result]:
    """The results of the runs that can be read; `on_message` gets a line for each of the others.

    StoreError if none can be read.
    """
    results, errors = [], []
    for paths in runs:
        try:
            results.append(load_result(paths))
        except StoreError as error:
            errors.append(error)
    if errors and not results:
        raise errors[0]
    for reason in errors:
        on_message(f"left out: {reason}")
    return results
