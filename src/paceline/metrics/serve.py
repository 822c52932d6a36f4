"""Serve the metrics of a sweep over HTTP on the loopback address, for Prometheus to scrape."""

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

ADDRESS = "127.0.0.1"
"""The metrics have no access control, so only this machine can reach them."""
_PATH = "/metrics"
_SERVER_NAMES = ("127.0.0.1", "localhost")
"""The host names that a request may carry."""
_MAX_CONNECTIONS = 16
"""Requests served at the same time; more are closed at once. Prometheus needs one."""
_REQUEST_TIMEOUT_S = 10.0
"""The longest time for one request: 10 s is the default scrape timeout of Prometheus."""


@contextmanager
def serving(sweep: SweepState, port: int) -> Iterator[str]:
    """Serve the metrics while the context is open, and give their URL; port 0 means any free port."""
    if not 0 <= port <= 65535:
        raise MetricsError(f"--metrics-port {port} is not a port: choose one from 1 to 65535, or 0 for any free port")
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Collector(sweep))
    try:
        server = _Server(port, registry)
    except OSError as error:
        raise MetricsError(
            f"--metrics-port {port} {_reason(error)}: choose another port, or 0 for any free port"
        ) from None
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
    """An HTTP server that limits the number and the duration of connections, so that idle clients cannot exhaust it."""

    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS

    def __init__(self, port: int, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._connections = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The handler's own timeout applies to each read; this timer limits the whole request.
        timer = threading.Timer(_REQUEST_TIMEOUT_S, _close_connection, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a client closes its connection during a request."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        if refusal := self._refusal():
            self.send_error(refusal)
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Print no access log: the terminal shows the live view."""

    def version_string(self) -> str:
        return "paceline"

    def _refusal(self) -> HTTPStatus | None:
        """The error status for a request that is not served, or None."""
        # Protects against DNS rebinding: a web page whose host name resolves to 127.0.0.1 sends that name as Host.
        if _hostname(self.headers.get("Host", "")) not in _SERVER_NAMES:
            return HTTPStatus.MISDIRECTED_REQUEST
        return None if urlsplit(self.path).path == _PATH else HTTPStatus.NOT_FOUND


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _close_connection(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "is in use"
        case errno.EACCES:
            return "needs privileges that you do not have"
        case _:
            return f"cannot be used ({error.strerror or error})"
