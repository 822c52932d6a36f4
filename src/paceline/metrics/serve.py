"""Serves a sweep's metrics on this machine's loopback address, for Prometheus to scrape."""

import errno
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from paceline.errors import MetricsError
from paceline.metrics.families import families
from paceline.metrics.sweep_state import SweepState

ADDRESS = "127.0.0.1"  # and no other: what is served says what runs here, to whoever can ask
_PATH = "/metrics"
_OWN_NAMES = ("127.0.0.1", "localhost")
_MOST_AT_ONCE = 16
_PATIENCE_S = 10.0


@contextmanager
def serving(sweep: SweepState, port: int) -> Iterator[str]:
    """Where it is served, for as long as this is open; port 0 is any that is free."""
    if not 0 <= port <= 65535:
        raise MetricsError(f"--metrics-port {port} is no port: choose one from 1 to 65535, or 0 for any that is free")
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Collector(sweep))
    try:
        server = _Server(port, registry)
    except OSError as error:
        raise MetricsError(f"--metrics-port {port} {_why(error)}: choose another, or 0 for any that is free") from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{ADDRESS}:{server.server_port}{_PATH}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    def __init__(self, sweep: SweepState) -> None:
        self._sweep = sweep

    def collect(self) -> Iterable[Metric]:
        return families(self._sweep)


class _Server(ThreadingHTTPServer):
    """So many at once and each for so long: who connects and says nothing takes no more than that."""

    daemon_threads = True
    request_queue_size = 2 * _MOST_AT_ONCE

    def __init__(self, port: int, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._room = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The handler's own timeout is between bytes; this one is for all of them.
        end = threading.Timer(_PATIENCE_S, _hang_up, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        if refusal := self._refusal():
            self.send_error(refusal)
            return
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is the live view's."""

    def version_string(self) -> str:
        return "paceline"

    def _refusal(self) -> HTTPStatus | None:
        # A page of another site can have its name point here and then ask as if it were ours: it gives that name.
        if _name_in(self.headers.get("Host", "")) not in _OWN_NAMES:
            return HTTPStatus.MISDIRECTED_REQUEST
        return None if urlsplit(self.path).path == _PATH else HTTPStatus.NOT_FOUND


def _name_in(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def _why(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "is in use"
        case errno.EACCES:
            return "needs rights that you do not have"
        case _:
            return f"cannot be used ({error.strerror or error})"
