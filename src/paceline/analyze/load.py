"""A run's result, whatever state the run was left in."""

from paceline.analyze.summary import summarize
from paceline.errors import StoreError
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun, is_live, set_right


def load_result(paths: RunPaths) -> Result:
    """As written at the end, or made now if the controller was killed before it could."""
    stored = StoredRun(paths)
    result = stored.result
    if result is None:
        if is_live(paths):
            raise StoreError(f"run {paths.id} is still under way: wait for it, or look again later")
        set_right(paths)
        result = summarize(stored)
        stored.write_result(result)
    return result
