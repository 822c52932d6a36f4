"""Reports how far a fetch is, from the code that moves the bytes to the caller of `registry.ensure`.

Between the two are sources and generators of several kinds, which would only pass it on; so it is a context variable.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Advance = Callable[[str, int, int], None]
"""Called with what is done now, how much of it is done, and how much there is; 0 if that is not known."""
_MB = 10**6
_advance: ContextVar[Advance | None] = ContextVar("advance", default=None)


@contextmanager
def reporting_to(advance: Advance) -> Iterator[None]:
    """Call `advance` with the progress of everything that is fetched in this context."""
    token = _advance.set(advance)
    try:
        yield
    finally:
        _advance.reset(token)


def report(what: str, done: int = 0, total: int = 0) -> None:
    if advance := _advance.get():
        advance(what, done, total)


def report_bytes(what: str, done: int, total: int) -> None:
    report(f"{what} (MB)", done // _MB, -(-total // _MB))
