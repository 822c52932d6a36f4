"""Which errors of TensorFlow may be absent in another attempt.

They are recognised by name: a task that fails before it has loaded TensorFlow must not load it only to report an error.
"""

_PASSING = {
    "UnavailableError",
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "FailedPreconditionError",  # A server was restarted and has no variables.
    "InternalError",
    "UnknownError",
    "DataLossError",
    "ResourceExhaustedError",
}


def may_pass(error: BaseException) -> bool:
    """Whether the error is one of a lost task, of its connection or of memory that ran out."""
    return any(kind.__module__.startswith("tensorflow.") and kind.__name__ in _PASSING for kind in type(error).__mro__)
