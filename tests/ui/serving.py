"""Starts `paceline ui` as users do, and talks to it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec


class Server(msgspec.Struct, frozen=True):
    url: str
    pid: int

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.url).query)["token"][0]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def request(
        self, path: str, *, method: str = "GET", token: str | None = None, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of an answer; `token` None is that of the address."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Authorization": f"Bearer {self.token if token is None else token}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def json(self, path: str, **more: Any) -> Any:
        status, _, content = self.request(path, **more)
        assert status == 200, content
        return json.loads(content)


@contextmanager
def serving(runs: Path, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "paceline", "ui", "--port", "0", "--runs", str(runs), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | {"COLUMNS": "100"}
    )
    try:
        assert process.stdout
        yield Server(process.stdout.readline().strip(), process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)
