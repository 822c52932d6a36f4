"""Serves a sweep's metrics on this machine's loopback address, for Prometheus to scrape."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric

from paceline.errors import MetricsError
from paceline.metrics.families import families
from paceline.metrics.sweep import SweepState

ADDRESS = "127.0.0.1"  # and no other: what is served says what runs here, to whoever can ask


@contextmanager
def serving(sweep: SweepState, port: int) -> Iterator[str]:
    """Where it is served, for as long as this is open; port 0 is any that is free."""
    if not 0 <= port <= 65535:
        raise MetricsError(f"--metrics-port {port} is no port: choose one from 1 to 65535, or 0 for any that is free")
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Collector(sweep))
    try:
        server, thread = start_http_server(port, ADDRESS, registry)
    except OSError as error:
        raise MetricsError(f"--metrics-port {port} {_why(error)}: choose another, or 0 for any that is free") from None
    try:
        yield f"http://{ADDRESS}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    def __init__(self, sweep: SweepState) -> None:
        self._sweep = sweep

    def collect(self) -> Iterable[Metric]:
        return families(self._sweep)


def _why(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "is in use"
        case errno.EACCES:
            return "needs rights that you do not have"
        case _:
            return f"cannot be used ({error.strerror or error})"
