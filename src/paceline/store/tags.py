"""The tags of a run: those that it was started with, unless they were changed later."""

from collections.abc import Sequence

import msgspec

from paceline.errors import StoreError
from paceline.messages import DECODE_ERRORS
from paceline.spec.tags import read_tags
from paceline.store.paths import RunPaths, write_whole
from paceline.store.regular_file import read_regular

_MAX_BYTES = 100_000


def tags_of(paths: RunPaths, original: Sequence[str]) -> tuple[str, ...]:
    """The tags of a run that was started with the tags `original`."""
    try:
        return tuple(msgspec.json.decode(read_regular(paths.tags, _MAX_BYTES), type=list[str]))
    except (OSError, *DECODE_ERRORS):  # There is none, or it is damaged, which must not hide the run.
        return tuple(original)


def write_tags(paths: RunPaths, tags: Sequence[str]) -> tuple[str, ...]:
    """Replace the tags of a run; SpecError if one of them is not allowed."""
    checked = read_tags(list(tags)) if tags else ()
    try:
        write_whole(paths.tags, msgspec.json.encode(checked))
    except OSError as error:
        raise StoreError(f"the tags of run {paths.id} cannot be changed: {error.strerror or error}") from None
    return checked
