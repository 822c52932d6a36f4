"""Which errors of Spark may be absent in another attempt."""

from py4j.protocol import Py4JError, Py4JNetworkError

from paceline.engines.spark.java_errors import JavaError

_PERMANENT = ("PythonException", "AnalysisException", "IllegalArgumentException")
"""Errors in what the driver asked for; all others may follow from a lost process."""


def may_pass(error: BaseException) -> bool:
    """Whether the error may follow from a lost process or a lack of memory."""
    if isinstance(error, Py4JNetworkError):
        return True
    return isinstance(error, Py4JError | JavaError) and not any(name in str(error) for name in _PERMANENT)
