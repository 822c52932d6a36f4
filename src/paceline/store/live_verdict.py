"""The bottleneck of the last seconds of a run in progress, as its controller found it, for other processes."""

from contextlib import suppress

import msgspec

from paceline.messages import DECODE_ERRORS
from paceline.store.paths import RunPaths, write_whole
from paceline.store.regular_file import read_regular
from paceline.store.verdict import Verdict

_MAX_BYTES = 2**20


def write_live_verdict(paths: RunPaths, verdict: Verdict) -> None:
    """Replace the bottleneck that readers see. A full disk must not end the run."""
    with suppress(OSError):
        write_whole(paths.live_verdict, msgspec.json.encode(verdict))


class LiveVerdictFile:
    """Reads the stored bottleneck, but only after it was replaced."""

    def __init__(self, paths: RunPaths) -> None:
        self._path = paths.live_verdict
        self._changed_ns = 0
        self.exists = False
        """Whether the controller of the run has found a bottleneck yet."""

    def new_verdict(self) -> Verdict | None:
        """The bottleneck, if it was found after the last call; else None."""
        try:
            changed_ns = self._path.stat().st_mtime_ns
            self.exists = True
            if changed_ns == self._changed_ns:
                return None
            verdict = msgspec.json.decode(read_regular(self._path, _MAX_BYTES), type=Verdict)
        except (OSError, *DECODE_ERRORS):
            return None
        self._changed_ns = changed_ns
        return verdict
