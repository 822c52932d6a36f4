"""The stream of the state of a run: one reader for all pages, and each update is encoded once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.store.live_verdict import write_live_verdict
from paceline.store.verdict import Verdict
from paceline.ui import live_stream
from paceline.ui.live_run import LiveRun
from paceline.ui.live_stream import LiveFeeds
from paceline.ui.live_view import live_view
from ui.growing_run import growing_run


def data_of(event: bytes) -> dict[str, Any]:
    return msgspec.json.decode(event.partition(b"data: ")[2], type=dict[str, Any])


async def close(*streams: AsyncIterator[bytes]) -> None:
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]


def test_pages_share_one_reader_and_one_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*arguments: Any) -> dict[str, Any]:
        made.append(arguments)
        return live_view(*arguments)

    monkeypatch.setattr(live_stream, "live_view", counted)

    async def watch() -> None:
        feeds, paths = LiveFeeds(), growing.writer.paths
        pages = [feeds.events(paths) for _ in range(5)]
        first = [await anext(page) for page in pages]
        assert len(made) == 1
        assert len(set(first)) == 1
        assert data_of(first[0])["update"] == 200
        assert "about" in data_of(first[0])
        growing.train(1)
        later = await asyncio.gather(*map(anext, pages))
        assert {data_of(event)["update"] for event in later} == {400}
        assert len(made) <= 3  # Not five: pages that look at about the same time get the same event.
        await close(*pages)

    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        growing.open()
        growing.train(1)
        asyncio.run(watch())


def test_a_page_that_is_loaded_again_does_not_read_the_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def counted(*arguments: Any) -> Any:
        readers.append(arguments)
        return LiveRun(*arguments)

    monkeypatch.setattr(live_stream, "LiveRun", counted)

    async def watch() -> None:
        feeds, paths = LiveFeeds(), growing.writer.paths
        for update in (200, 400):
            page = feeds.events(paths)
            state = data_of(await anext(page))
            assert state["history"]["first"] == 0
            assert "about" in state
            while state["update"] < update:
                state = data_of(await anext(page))
            await close(page)
            growing.train(1)
        assert len(readers) == 1

    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        growing.open()
        growing.train(1)
        asyncio.run(watch())


def test_the_reader_of_a_run_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    async def watch() -> None:
        feeds = LiveFeeds()
        page = feeds.events(growing.writer.paths)
        await anext(page)
        growing.writer.close()
        growing.writer.release()
        names = [event.split(b"\n")[0] async for event in page]
        assert names[-1] == b"event: ended"
        assert not feeds._feeds

    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        asyncio.run(watch())


def test_the_bottleneck_is_the_one_that_the_controller_found(tmp_path: Path) -> None:
    verdict = Verdict(cause="network", where="link of h1", share=0.7, evidence=[], remedy=[])

    async def watch() -> None:
        feeds, paths = LiveFeeds(), growing.writer.paths
        page = feeds.events(paths)
        assert data_of(await anext(page))["bottleneck"] is None
        write_live_verdict(paths, verdict)
        while (shown := data_of(await anext(page))["bottleneck"]) is None:
            pass
        assert shown["summary"].startswith("network: link of h1")
        await close(page)

    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        asyncio.run(watch())
