"""A session of TensorFlow's v1 runtime that retries requests which a task wrongly rejects as duplicates.

A task rejects a request whose number is among the last 100,000 it has received. `request_numbers` makes the numbers of
a task's requests unique, so rejections are only expected on a system that does not allow it. There, two requests get
the same number by chance in half of all runs with 80,000 requests to a server, and one request in about 43,000 from
then on.

A retry is safe, and it gets a new number. Nothing of the rejected request was executed, nor anything that depends on
its result: gradients depend on the data of the worker and on the values of every server. Because of this, a graph must
push its own gradients (or rows) before it takes those of other workers.

Sometimes TensorFlow does not return from a rejection: an op that is cancelled before it has started starts anyway and
waits forever. This is rare while server and worker remember the same requests, and common with several workers, because
a server then forgets numbers earlier than each worker. This module cannot end that wait; the watchdog of the run does.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from paceline.engines.tensorflow.cluster import session_config

tf1 = tf.compat.v1
_REJECTED = re.compile(r"^The same RunGraph .*request was received twice", re.MULTILINE)
"""Matches only at the start of a line: an error message also quotes recent log lines, but these are indented."""
_MAX_ATTEMPTS = 50
"""By chance, one retry is enough; if so many fail, there is another cause."""


class Session:
    """A tf.compat.v1.Session that retries rejected requests."""

    def __init__(self, target: str, graph: Any, threads: int, worker: int | None = None) -> None:
        """`worker` is the number of the worker, as in `session_config`."""
        self._session = tf1.Session(target, graph=graph, config=session_config(threads, worker))

    def run(self, *arguments: Any) -> Any:
        return retry_rejected(self._session.run, arguments)

    def make_callable(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Any]:
        """A function that takes the values of the feeds and returns those of the fetches; faster than `run`."""
        run_once = self._session.make_callable(fetches, list(feeds))
        return lambda *values: retry_rejected(run_once, values)

    def close(self) -> None:
        self._session.close()


def retry_rejected(request: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The result of `request(*arguments)`, which is repeated if TensorFlow rejects it as a duplicate."""
    attempts = 1
    while True:
        try:
            return request(*arguments)
        # A rejection is an AbortedError; CancelledError comes from other parts of the step that it cancels.
        except (tf.errors.AbortedError, tf.errors.CancelledError) as error:
            if attempts == _MAX_ATTEMPTS or not _REJECTED.search(error.message):
                raise
        attempts += 1
        print("TensorFlow rejected a request as a duplicate; retrying", file=sys.stderr, flush=True)
