"""Tags: words by which users find runs again."""

import re
from collections.abc import Sequence
from typing import Any

from paceline.errors import SpecError

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=+-]{0,39}")
MOST_TAGS = 20


def read_tags(given: Any) -> tuple[str, ...]:
    """The tags that a spec gives as text, with commas between several, or as a list, each once."""
    texts = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    tags = tuple(dict.fromkeys(tag.strip() for text in texts for tag in str(text).split(",")))
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise SpecError(
                f"tag '{tag}': must be 1 to 40 characters of a-z, A-Z, 0-9 and . _ : / = + -, starting with a letter "
                "or digit"
            )
    if len(tags) > MOST_TAGS:
        raise SpecError(f"{len(tags)} tags are too many: a run has at most {MOST_TAGS}")
    return tags
