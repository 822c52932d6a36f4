"""A run's result, whatever state the run was left in."""

from paceline.analyze.summary import summarize
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, as_store_errors, recovering


def load_result(paths: RunPaths) -> Result:
    """As written at the end, or made now if the controller was killed before it could."""
    stored = StoredRun(paths)
    if result := stored.result:
        return result
    with recovering(paths):
        # Another reader may have been faster.
        result = stored.result
        if result is None:
            with as_store_errors(paths.directory):
                result = summarize(stored)
        stored.write_result(result)
    return result
