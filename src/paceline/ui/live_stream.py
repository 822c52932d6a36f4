"""Sends the state of a run in progress to pages, as server-sent events, at most four times a second."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.concurrency import run_in_threadpool

from paceline.errors import StoreError
from paceline.store.in_progress import is_in_progress
from paceline.store.paths import RunPaths
from paceline.ui.live_run import LiveRun
from paceline.ui.live_view import Bottleneck, about, live_view

INTERVAL_S = 0.25
"""Agents send records about once a second, so more frequent looks would show nothing new."""
_QUIET_S = 1.0
"""A page hears at least this often, so that clocks go on and a lost connection is noticed."""
_JUDGE_EVERY_S = 4.0
_JUDGE_SHARE = 0.025
"""A search for the bottleneck takes 40 ms of CPU time with 2 workers and 400 ms with 32. It is made every four seconds,
or less often if it would take more than this share of the time."""


class LiveFeeds:
    """One reader per run, however many pages look at it. It stops when no page does."""

    def __init__(self) -> None:
        self._feeds: dict[str, _Feed] = {}

    async def events(self, paths: RunPaths) -> AsyncIterator[bytes]:
        """The events for one page, until the run has ended: first everything so far, then what is new."""
        feed = self._feeds.setdefault(str(paths.directory), _Feed(paths))
        feed.pages += 1
        try:
            async for event in feed.events():
                yield event
        finally:
            feed.pages -= 1
            if not feed.pages:
                self._feeds.pop(str(paths.directory), None)


class _Feed:
    def __init__(self, paths: RunPaths) -> None:
        self.pages = 0
        self._paths, self._run, self._bottleneck = paths, LiveRun(paths), Bottleneck()
        self._lock = asyncio.Lock()
        self._looked_at = self._judge_at = -1e9
        self._version = 0
        self._in_progress = True

    async def events(self) -> AsyncIterator[bytes]:
        seen, first, width_s, sent_at = -1, 0, 0.0, -1e9
        clock = asyncio.get_running_loop().time
        while True:
            try:
                await self._look()
            except (StoreError, OSError) as error:
                yield _event("problem", {"error": str(error)})
                return
            if self._version != seen or clock() - sent_at >= _QUIET_S:
                intervals = self._run.intervals
                if intervals.width_s != width_s:
                    first, width_s = 0, intervals.width_s
                view = await run_in_threadpool(live_view, self._run, self._bottleneck, first)
                if seen == -1:
                    view["about"] = about(self._run)
                yield _event("state", view)
                seen, first, sent_at = self._version, max(0, intervals.last - 2), clock()
            if not self._in_progress:
                yield _event("ended", {})
                return
            await asyncio.sleep(INTERVAL_S)

    async def _look(self) -> None:
        """Read what is new, unless another page has just done so."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < INTERVAL_S * 0.8:
                return
            self._looked_at = now
            if await run_in_threadpool(self._run.advance):
                self._version += 1
            if now >= self._judge_at and self._run.opened_s is not None and not self._run.ended:
                self._bottleneck.set(await run_in_threadpool(self._run.verdict), self._run.now_s)
                took_s = asyncio.get_running_loop().time() - now
                self._judge_at = now + max(_JUDGE_EVERY_S, took_s / _JUDGE_SHARE)
                self._version += 1
            self._in_progress = await run_in_threadpool(is_in_progress, self._paths)


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
