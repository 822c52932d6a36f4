"""A session of the v1 runtime whose requests are sent again if the runtime takes one for another.

Each run of a distributed graph has a thread of its own in the runtime, which numbers its requests by a generator that
it seeds with 32 random bits; a task refuses a number that it has had among its last 100,000. So two meet by chance:
half of all runs of 80,000 requests to a server see one, and from then on there is one in about 43,000. Nothing of a
refused request was done, nor anything that needs its answer, as gradients need the data of the worker and the values of
every server. So it is safe to ask again, and the number is a new one then. What a graph takes from others (a gradient,
a row) it must therefore take after it has pushed its own.

The runtime does not always return from a refusal: what it cancels before it has begun begins all the same, and waits
for ever. That is rare as long as server and worker remember the same requests (none of 738 in ps-async, a few of a
hundred in ps-sync on busy cores), but a server that serves several workers forgets sooner than each of them, and what
only the worker refuses hangs: beyond 100,000 updates it is to be reckoned with. Nothing in reach ends that wait; the
watchdog does.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from paceline.engines.tensorflow.cluster import config

tf1 = tf.compat.v1
_REFUSED = re.compile(r"^The same RunGraph .*request was received twice", re.MULTILINE)
"""In a line of its own; what was logged of late, which an error quotes as well, is indented."""
_MOST_TRIES = 50
"""By chance it is one; more, and something else is wrong."""


class Session:
    def __init__(self, target: str, graph: Any, threads: int, worker: int | None = None) -> None:
        """`worker`: as `config` takes it."""
        self._session = tf1.Session(target, graph=graph, config=config(threads, worker))

    def run(self, *arguments: Any) -> Any:
        return asked_again(self._session.run, arguments)

    def make_callable(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Any]:
        made = self._session.make_callable(fetches, list(feeds))
        return lambda *values: asked_again(made, values)

    def close(self) -> None:
        self._session.close()


def asked_again(ask: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    tries = 1
    while True:
        try:
            return ask(*arguments)
        except (tf.errors.AbortedError, tf.errors.CancelledError) as error:  # This, or what followed from it.
            if tries == _MOST_TRIES or not _REFUSED.search(error.message):
                raise
        tries += 1
        print("a server took a request for one that it has had: sent again", file=sys.stderr, flush=True)
