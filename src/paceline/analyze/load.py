"""Loads the result of a run, also of one whose controller was killed."""

from paceline.analyze.summary import summarize
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors, recovering


def load_result(paths: RunPaths) -> Result:
    """The stored result. If the controller was killed before it wrote one, the result is computed now and stored.

    StoreError if the run is still in progress, or if its files are damaged.
    """
    stored = StoredRun(paths)
    if result := stored.result:
        return result
    with recovering(paths):
        # Another reader may have written it while this one waited for the lock.
        if result := stored.result:
            return result
        with as_store_errors(paths.directory):
            result = summarize(stored)
        stored.write_result(result)
    return result
