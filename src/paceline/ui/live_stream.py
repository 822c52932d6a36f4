"""Sends the state of a run in progress to pages, as server-sent events, at most four times a second."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.concurrency import run_in_threadpool

from paceline.errors import StoreError
from paceline.store.in_progress import is_in_progress
from paceline.store.live_verdict import LiveVerdictFile
from paceline.store.paths import RunPaths
from paceline.ui.live_run import LiveRun
from paceline.ui.live_view import Bottleneck, about, live_view

INTERVAL_S = 0.25
"""Agents send records about once a second, so more frequent looks would show nothing new."""
_QUIET_S = 1.0
"""A page hears at least this often, so that clocks go on and a lost connection is noticed."""
_MOST_UNUSED = 4
"""Readers that are kept although no page needs them now."""
_CONTROLLER_FINDS_S = 9.0
"""Seconds of training by which a controller has found a bottleneck, unless it is of an older version."""
_JUDGE_EVERY_S = 4.0
_JUDGE_SHARE = 0.025
"""A search for the bottleneck takes 40 ms of CPU time with 2 workers and 400 ms with 32. It is made every four seconds,
or less often if it would take more than this share of the time."""


class LiveFeeds:
    """One reader per run, however many pages look at it. It reads nothing while no page does."""

    def __init__(self) -> None:
        self._feeds: dict[str, _Feed] = {}

    async def events(self, paths: RunPaths) -> AsyncIterator[bytes]:
        """The events for one page, until the run has ended: first everything so far, then what is new."""
        name = str(paths.directory)
        feed = self._feeds[name] = self._feeds.get(name) or _Feed(paths)
        feed.pages += 1
        try:
            async for event in feed.events():
                yield event
        finally:
            feed.pages -= 1
            self._forget(feed)

    def _forget(self, left: "_Feed") -> None:
        """A reader that no page needs stays for the next page, which then need not read the run from its start."""
        unused = [name for name, feed in self._feeds.items() if not feed.pages]
        for name in unused:
            if self._feeds[name].is_over or (len(unused) > _MOST_UNUSED and self._feeds[name] is not left):
                del self._feeds[name]


class _Feed:
    def __init__(self, paths: RunPaths) -> None:
        self.pages = 0
        self._paths, self._run, self._bottleneck = paths, LiveRun(paths), Bottleneck()
        self._verdict_file = LiveVerdictFile(paths)
        self._lock = asyncio.Lock()
        self._looked_at = self._judge_at = -1e9
        self._version = self._looks = 0
        self._in_progress, self._failed = True, False
        self._encoded: dict[tuple[int, int, bool], bytes] = {}
        """The event of the last look, by number of the look, first interval, and whether it is the first of a page."""

    @property
    def is_over(self) -> bool:
        return self._failed or not self._in_progress

    async def events(self) -> AsyncIterator[bytes]:
        seen, first, width_s, sent_at = -1, 0, 0.0, -1e9
        clock = asyncio.get_running_loop().time
        while True:
            try:
                await self._look()
            except (StoreError, OSError) as error:
                self._failed = True
                yield _event("problem", {"error": str(error)})
                return
            if self._version != seen or clock() - sent_at >= _QUIET_S:
                intervals = self._run.intervals
                if intervals.width_s != width_s:
                    first, width_s = 0, intervals.width_s
                yield await self._state(first, begins=seen == -1)
                seen, first, sent_at = self._version, max(0, intervals.last - 2), clock()
            if not self._in_progress:
                yield _event("ended", {})
                return
            await asyncio.sleep(INTERVAL_S)

    async def _state(self, first: int, *, begins: bool) -> bytes:
        """The event with the state of the run and its history from an interval on, made once for all pages."""
        async with self._lock:
            key = (self._looks, first, begins)
            if key not in self._encoded:
                event = await run_in_threadpool(self._encode, first, begins)
                self._encoded = {old: data for old, data in self._encoded.items() if old[0] == self._looks}
                self._encoded[key] = event
            return self._encoded[key]

    def _encode(self, first: int, begins: bool) -> bytes:
        view = live_view(self._run, self._bottleneck, first)
        return _event("state", view | {"about": about(self._run)} if begins else view)

    async def _look(self) -> None:
        """Read what is new, unless another page has just done so."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < INTERVAL_S * 0.8:
                return
            self._looked_at = now
            self._looks += 1
            if has_news := await run_in_threadpool(self._run.advance):
                self._version += 1
            await self._find_bottleneck(now)
            if not has_news:  # A run that writes is in progress.
                self._in_progress = await run_in_threadpool(is_in_progress, self._paths)

    async def _find_bottleneck(self, now: float) -> None:
        """Take the bottleneck that the controller has found. Only if it finds none, search for it here."""
        if verdict := self._verdict_file.new_verdict():
            self._bottleneck.set(verdict, self._run.now_s)
            self._version += 1
        elif not self._verdict_file.exists and now >= self._judge_at and self._run.now_s >= _CONTROLLER_FINDS_S:
            self._bottleneck.set(await run_in_threadpool(self._run.verdict), self._run.now_s)
            took_s = asyncio.get_running_loop().time() - now
            self._judge_at = now + max(_JUDGE_EVERY_S, took_s / _JUDGE_SHARE)
            self._version += 1


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
