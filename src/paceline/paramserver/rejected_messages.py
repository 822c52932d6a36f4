"""What a server says of messages it cannot use: the first few in words, the rest as a count.

Whoever sends a million of them must not fill the run's log with a million lines.
"""

import logging
from collections import Counter

_log = logging.getLogger(__name__)
_IN_WORDS = 20
_NAMES = 100


class RejectedMessageLog:
    def __init__(self) -> None:
        self._count = 0
        self._by_sender: Counter[bytes] = Counter()

    def note(self, sender: bytes, error: Exception) -> None:
        self._count += 1
        if sender in self._by_sender or len(self._by_sender) < _NAMES:
            self._by_sender[sender] += 1
        if self._count <= _IN_WORDS:
            _log.warning("dropped a message of %r: %s", sender, error)
        if self._count == _IN_WORDS:
            _log.warning("further ones are only counted")

    def close(self) -> None:
        if self._count > _IN_WORDS:
            most = ", ".join(f"{sender!r} {count:,}" for sender, count in self._by_sender.most_common(5))
            _log.warning("dropped %s messages in all, most of: %s", f"{self._count:,}", most)
