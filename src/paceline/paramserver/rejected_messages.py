"""Logs the messages that a server rejects: the first ones one by one, the rest only as a count.

A faulty worker may send millions of invalid messages; they must not fill the run's log with as many lines.
"""

import logging
from collections import Counter

_log = logging.getLogger(__name__)
_MAX_LOGGED = 20
"""Number of rejected messages that are logged one by one."""
_MAX_SENDERS = 100
"""Number of senders that are counted separately: a client that invents new names cannot fill the memory."""


class RejectedMessageLog:
    def __init__(self) -> None:
        self._count = 0
        self._by_sender: Counter[bytes] = Counter()

    def add(self, sender: bytes, error: Exception) -> None:
        self._count += 1
        if sender in self._by_sender or len(self._by_sender) < _MAX_SENDERS:
            self._by_sender[sender] += 1
        if self._count <= _MAX_LOGGED:
            _log.warning("dropped a message from or to %r: %s", sender, error)
        if self._count == _MAX_LOGGED:
            _log.warning("further dropped messages are counted, not logged")

    def close(self) -> None:
        """Log the total, if not every rejected message was logged."""
        if self._count > _MAX_LOGGED:
            senders = ", ".join(f"{sender!r} {count:,}" for sender, count in self._by_sender.most_common(5))
            _log.warning("dropped %s messages in total, most of them from or to: %s", f"{self._count:,}", senders)
