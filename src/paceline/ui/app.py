"""The web application: its addresses, and what each answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.errors import PacelineError, StoreError
from paceline.page import assets
from paceline.page.blocks import Page
from paceline.page.offline import served_html
from paceline.report.build import build
from paceline.report.page import CAUSES, report_html, report_page
from paceline.store.in_progress import is_in_progress
from paceline.store.paths import RunPaths
from paceline.store.remove import remove_run
from paceline.store.rename import rename_run
from paceline.store.tags import write_tags
from paceline.ui.access import HEADERS, Tokens, refusal, token_of
from paceline.ui.live_stream import LiveFeeds
from paceline.ui.logs import log_tail
from paceline.ui.run_list import COLUMNS, RunList, sweep_of
from paceline.ui.what_if import WhatIfs

_MOST_RUNS = 400
"""Runs in one comparison."""
_MAX_BODY_BYTES = 100_000
Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The answers to requests. Reports are made one at a time: each may take seconds and much memory."""

    def __init__(self, runs: Path, tokens: Tokens) -> None:
        self._list, self._tokens = RunList(runs), tokens
        self._feeds = LiveFeeds()
        self._reporting = asyncio.Lock()
        self._what_ifs = WhatIfs()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._shell),
            Route("/static/page.css", self._style),
            Route("/static/page.js", self._script),
            Route("/api/runs", self._reading(self._runs)),
            Route("/api/status", self._reading(self._status)),
            Route("/api/report", self._reading(self._report)),
            Route("/api/what-if", self._reading(self._what_if)),
            Route("/api/log", self._reading(self._log)),
            Route("/api/live", self._reading(self._live)),
            Route("/report.html", self._reading(self._file)),
            Route("/api/delete", self._changing(self._delete), methods=["POST"]),
            Route("/api/rename", self._changing(self._rename), methods=["POST"]),
            Route("/api/tags", self._changing(self._tag), methods=["POST"]),
        ]

    async def _shell(self, _request: Request) -> Response:
        """The page without data: it needs no token, and says so if it has none."""
        data = {"mode": "ui", "causes": CAUSES, "runs_directory": str(self._list.runs)}
        return Response(served_html("Paceline", data), media_type="text/html")

    async def _style(self, _request: Request) -> Response:
        return Response(assets.stylesheet(), media_type="text/css")

    async def _script(self, _request: Request) -> Response:
        return Response(assets.script(), media_type="text/javascript")

    async def _runs(self, request: Request) -> Response:
        rows = await run_in_threadpool(self._list.rows)
        return _json({"columns": COLUMNS, "rows": rows, "may_change": self._tokens.allows_changes(_token(request))})

    async def _status(self, request: Request) -> Response:
        (paths,) = self._list.find(_names(request)[:1], sweeps=False)
        return _json({"running": await run_in_threadpool(is_in_progress, paths)})

    async def _report(self, request: Request) -> Response:
        return _json(await self._page(request, ask_for_predictions=True))

    async def _what_if(self, request: Request) -> Response:
        selected = self._select(_names(request))
        return _json({"blocks": await self._what_ifs.blocks(self._list.runs, selected)})

    async def _file(self, request: Request) -> Response:
        page = await self._page(request, ask_for_predictions=False)
        html = await run_in_threadpool(report_html, page)
        # The file has a policy of its own; saved, not shown, it never runs with the rights of this server.
        name = "".join(letter for letter in page.title if letter.isascii() and (letter.isalnum() or letter in "-_"))
        disposition = {"Content-Disposition": f'attachment; filename="{name or "runs"}-report.html"'}
        return Response(html, media_type="text/html", headers=disposition)

    async def _page(self, request: Request, *, ask_for_predictions: bool) -> Page:
        names = _names(request)
        async with self._reporting:
            return await run_in_threadpool(self._make_page, names, ask_for_predictions)

    def _select(self, names: list[str]) -> list[RunPaths]:
        selected = self._list.find(names)
        if len(selected) > _MOST_RUNS:
            raise StoreError(f"{len(selected)} runs are too many for one page: choose at most {_MOST_RUNS}")
        return selected

    def _make_page(self, names: list[str], ask_for_predictions: bool) -> Page:
        selected = self._select(names)
        title = selected[0].id if len(selected) == 1 else names[0] if len(names) == 1 else "comparison"
        by_sweep = len({sweep_of(paths.id) for paths in selected}) > 1
        problems: list[str] = []
        report = build(title, selected, by_sweep=by_sweep, on_message=problems.append)
        page = report_page(report, selected, on_message=problems.append, ask_for_predictions=ask_for_predictions)
        return msgspec.structs.replace(page, problems=[*page.problems, *problems])

    async def _log(self, request: Request) -> Response:
        (paths,) = self._list.find(_names(request)[:1], sweeps=False)
        return _json(await run_in_threadpool(log_tail, paths, request.query_params.get("task", "")))

    async def _live(self, request: Request) -> Response:
        (paths,) = self._list.find(_names(request)[:1], sweeps=False)
        return StreamingResponse(self._until_left(request, paths), media_type="text/event-stream")

    async def _until_left(self, request: Request, paths: Any) -> AsyncIterator[bytes]:
        async for event in self._feeds.events(paths):
            yield event
            if await request.is_disconnected():
                return

    async def _delete(self, request: Request) -> Response:
        body = await _body(request)
        selected = self._list.find([str(name) for name in body.get("runs", [])], sweeps=False)
        for paths in selected:
            await run_in_threadpool(remove_run, paths)
        return _json({"deleted": [paths.id for paths in selected]})

    async def _rename(self, request: Request) -> Response:
        body = await _body(request)
        (paths,) = self._list.find([str(body.get("run", ""))], sweeps=False)
        renamed = await run_in_threadpool(rename_run, paths, str(body.get("name", "")))
        return _json({"run": renamed.id})

    async def _tag(self, request: Request) -> Response:
        body = await _body(request)
        selected = self._list.find([str(name) for name in body.get("runs", [])], sweeps=False)
        tags = [str(tag) for tag in body.get("tags", [])]
        for paths in selected:
            await run_in_threadpool(write_tags, paths, tags)
        return _json({"tagged": [paths.id for paths in selected]})

    def _reading(self, handler: Handler) -> Handler:
        return self._guarded(handler, self._tokens.allows_reading, "read")

    def _changing(self, handler: Handler) -> Handler:
        return self._guarded(handler, self._tokens.allows_changes, "change")

    def _guarded(self, handler: Handler, allows: Callable[[str], bool], what: str) -> Handler:
        async def guarded(request: Request) -> Response:
            if not allows(_token(request)):
                hint = "open the address that `paceline ui` printed" if what == "read" else "start paceline ui --edit"
                return _error(HTTPStatus.UNAUTHORIZED, f"this address does not have the token to {what} runs: {hint}")
            try:
                return await handler(request)
            except PacelineError as error:
                return _error(HTTPStatus.NOT_FOUND, str(error))

        return guarded


class Guard:
    """Refuses requests of other sites, and adds the headers that protect the page to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_RAW_HEADERS]
            await send(message)

        refused = refusal(Request(scope).headers)
        answer: ASGIApp = _error(*refused) if refused else self._app
        await answer(scope, receive, send_with_headers)


_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def application(runs: Path, tokens: Tokens) -> ASGIApp:
    return Guard(Starlette(routes=Pages(runs, tokens).routes()))


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _error(status: HTTPStatus, line: str) -> Response:
    return Response(msgspec.json.encode({"error": line}), status_code=status, media_type="application/json")


def _token(request: Request) -> str:
    return token_of(request.headers, request.query_params)


def _names(request: Request) -> list[str]:
    names = request.query_params.getlist("run")
    if not names:
        raise StoreError("no run was named")
    return list(names)


async def _body(request: Request) -> dict[str, Any]:
    data = await request.body()
    try:
        if len(data) > _MAX_BODY_BYTES:
            raise msgspec.ValidationError("it is too long")
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"the request is not understood: {error}") from None
