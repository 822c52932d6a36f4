"""Starts the server of the page: in this process for `paceline ui`, in a process of its own for `paceline run --ui`."""

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from paceline.errors import PageError
from paceline.page import assets
from paceline.ui.access import Tokens

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8642
_BACKLOG = 64


def page_url(port: int, token: str, place: str = "") -> str:
    """`place` is `latest` for the run that is being made now."""
    return f"http://{ADDRESS}:{port}/?token={token}" + (f"#/{place}" if place else "")


def serve(runs: Path, tokens: Tokens, listener: socket.socket, on_start: Callable[[], None]) -> None:
    """Answer requests until the process is interrupted. It gives way to every other process of the machine."""
    # One thread: the tables of a run in progress are short, and waking more threads takes cores from the training.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        import uvicorn

        from paceline.ui.app import application
    except ModuleNotFoundError as error:
        raise PageError(f"the page needs {error.name}: pip install 'paceline[ui]'") from None
    assets.script()  # Fails now, and not at the first request, if a file of the page is missing.
    config = uvicorn.Config(
        application(runs, tokens),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
    )
    on_start()
    _give_way()  # After the start of a browser, which would inherit it.
    uvicorn.Server(config).run(sockets=[listener])


def _give_way() -> None:
    """Run only when no other process of the machine has work, and interrupt none of them on waking up."""
    with suppress(OSError):
        os.nice(19)
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def listening(port: int | None) -> socket.socket:
    """A socket that listens on the loopback address; None is the default port, or any free one if that is taken."""
    for candidate in [port] if port is not None else [DEFAULT_PORT, 0]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, candidate))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            listener.close()
            if port is not None:
                raise PageError(f"--port {port} {_reason(error)}: choose another, or 0 for any free port") from None
            continue
        return listener
    raise PageError("no port of 127.0.0.1 is free")


def _reason(error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return "is not a port from 0 to 65535"
    return "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror or error})"
