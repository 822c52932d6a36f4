"""The bottleneck of a run while it trains: a search every few seconds, in a thread, and an incident when it changes."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from paceline.analyze.bottleneck.episodes import bottleneck_key, describe_change
from paceline.analyze.bottleneck.judge import NOT_CLEAR
from paceline.analyze.recent import WINDOW_S, RecentRows
from paceline.control.run_state import CurrentBottleneck
from paceline.store.journal import Entry
from paceline.store.live_verdict import write_live_verdict
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from paceline.store.verdict import Verdict

SEARCH_EVERY_S = 3.0
_SHARE_OF_TIME = 0.1
"""At most this part of the time is spent on searching: a search takes longer the more tasks and hosts there are."""
MOST_HOSTS = 64
"""With more hosts, no bottleneck is searched for during training: a search would hold up the messages of the agents."""
_FIRST_SEARCH_S = 4.0
"""Of training: before, there are too few samples of the hosts."""
_CLEAR_SHARE = 0.4
"""Smallest share of the workers' time with which a new bottleneck is an incident."""
_ORDINARY = frozenset({"compute", "overhead", "barrier", "startup", NOT_CLEAR})
"""Causes that are no incident: a run that has nothing else to wait for computes."""
_MOST_INCIDENTS = 20


class LiveBottleneck:
    """Finds the bottleneck of the last seconds, again and again."""

    def __init__(self, paths: RunPaths) -> None:
        self.current: CurrentBottleneck | None = None
        self._paths, self._rows = paths, RecentRows()
        self._thread = ThreadPoolExecutor(1, "bottleneck")
        self._search: Future[tuple[Verdict | None, float]] | None = None
        self._due_s = _FIRST_SEARCH_S
        self._candidate: tuple[tuple[str, str], float] | None = None
        """Another bottleneck that was found once, and when. It counts when it is found again."""
        self._incidents = 0

    def add(self, entry: Entry) -> None:
        """Take in an entry of the run's journal."""
        self._rows.add(entry)

    def poll(self, trained_s: float) -> str | None:
        """To be called often during training. Returns the text of an incident if another bottleneck has begun."""
        if self._search and self._search.done():
            (verdict, took_s), self._search = self._search.result(), None
            self._due_s = max(self._due_s, trained_s + took_s / _SHARE_OF_TIME)
            return self._found(verdict, trained_s) if verdict else None
        if self._search is None and trained_s >= self._due_s:
            self._due_s = trained_s + SEARCH_EVERY_S
            self._search = self._thread.submit(self._judge, self._rows.snapshot())
        return None

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _judge(self, rows: RecentRows) -> tuple[Verdict | None, float]:
        """The bottleneck now, and the CPU seconds that it took to find it."""
        start_s, run = time.thread_time(), StoredRun(self._paths)
        verdict = rows.verdict(self._paths, run.header, run.events)
        if verdict:
            write_live_verdict(self._paths, verdict)
        return verdict, time.thread_time() - start_s

    def _found(self, verdict: Verdict, trained_s: float) -> str | None:
        key, current = bottleneck_key(verdict.cause, verdict.where), self.current
        if current is None:
            clear = verdict.cause != NOT_CLEAR
            self.current = CurrentBottleneck(verdict.cause, verdict.where, verdict.share, 0.0) if clear else None
            return None
        if key == bottleneck_key(current.cause, current.where):
            self.current = msgspec.structs.replace(current, where=verdict.where, share=verdict.share)
            self._candidate = None
            return None
        if verdict.cause == NOT_CLEAR or self._candidate is None or self._candidate[0] != key:
            # The period that was judged began some seconds ago, and the bottleneck somewhere in it.
            self._candidate = (key, max(0.0, trained_s - WINDOW_S / 2)) if verdict.cause != NOT_CLEAR else None
            return None
        since_s = self._candidate[1]
        self.current = CurrentBottleneck(verdict.cause, verdict.where, verdict.share, since_s)
        self._candidate = None
        if verdict.cause in _ORDINARY or verdict.share < _CLEAR_SHARE:
            return None
        self._incidents += 1
        if self._incidents > _MOST_INCIDENTS:
            return None
        return describe_change(verdict, since_s)
