"""Which errors of a user's script may be absent in another attempt."""

import re

_PASSING = re.compile(
    r"gloo|nccl|c10d|Connection (closed|reset|refused|aborted)|Broken pipe|Socket (Timeout|closed)|store->get|"
    r"timed out|can't allocate memory|out of memory|UnavailableError|connect to peer",
    re.IGNORECASE,
)
"""Texts of the communication libraries and memory allocators of frameworks, which raise errors of general types."""
_FRAMEWORKS = ("torch", "tensorflow", "jax", "jaxlib")


def may_pass(error: BaseException) -> bool:
    """Whether the error says that another rank was lost, or that memory ran out."""
    of_framework = type(error).__module__.partition(".")[0] in _FRAMEWORKS
    return (isinstance(error, RuntimeError) or of_framework) and _PASSING.search(str(error)[:10_000]) is not None
