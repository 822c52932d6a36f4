"""Which errors of torch may be absent in another attempt."""

import re

_PASSING = re.compile(
    r"gloo|Connection (closed|reset|refused)|Broken pipe|Socket|store->get|c10d|timed out|can't allocate memory|"
    r"not enough memory|out of memory",
    re.IGNORECASE,
)
"""torch raises RuntimeError for almost everything. These texts are of gloo, its store and the memory allocator."""


def may_pass(error: BaseException) -> bool:
    """Whether the error says that a peer of the process group was lost, or that memory ran out."""
    return isinstance(error, RuntimeError) and _PASSING.search(str(error)[:10_000]) is not None
