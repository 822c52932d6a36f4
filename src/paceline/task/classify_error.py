"""Tells errors that another attempt would meet again, such as a mistake in the user's code, from other errors."""

import errno

from paceline.entry_points import load_object
from paceline.errors import PeersGone

_PASSING_ERRNOS = {
    errno.ENOMEM, errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE,
    errno.ENOTCONN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.EHOSTDOWN,
}  # fmt: skip
"""Error numbers that exceptions of Python and of ZeroMQ carry: memory ran out, or a connection is lost."""
_PASSING = (PeersGone, ConnectionError, TimeoutError, MemoryError, KeyboardInterrupt)
"""KeyboardInterrupt: somebody sent a signal to the process."""


def is_permanent(error: BaseException, may_pass: str | None) -> bool:
    """Whether another attempt would fail with the same error. `may_pass` is `Engine.may_pass` of the task's engine."""
    if isinstance(error, _PASSING):
        return False
    try:
        if getattr(error, "errno", None) in _PASSING_ERRNOS:
            return False
        return not (may_pass and load_object(may_pass)(error))
    except Exception:  # The framework cannot be loaded, or the exception is of a class with errors of its own.
        return True
