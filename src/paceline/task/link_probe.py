"""The process that measures the network links from its host to others, one process per host.

The controller says when to measure which links (MeasureLinks), so that transfers do not disturb each other. A probe
listens on its host's address and serves the probes of the other hosts at any time. A connection starts with the token
of the run and one byte that says what it is for.
"""

import hmac
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median

from paceline.forkserver.lifeline import die_with_parent
from paceline.messages import Bound, Failed, Halt, Peers, Receiver, Sender, ToTask
from paceline.messages.link_probe import LinkMeasurement, LinkOrder, LinksMeasured, MeasureLinks
from paceline.ports import listening_socket
from paceline.task.channel import stdio_pipes
from paceline.task.summarize_error import summarize_error

PURPOSE = "link"
"""The purpose under which a probe announces its address."""
_REACH, _ECHO, _RATE = b"R", b"E", b"S"
_CONNECT_S = 5.0
"""A host that does not answer within this time counts as unreachable. Until then TCP has tried three times."""
_SILENT_S = 5.0
_ROUND_TRIPS, _FEWEST_ROUND_TRIPS, _ROUND_TRIPS_S = 20, 3, 0.5
"""Round trips to measure, and how many at least if they take longer than that many seconds."""
_SKIP_S = 0.1
"""The first part of a transfer is not measured: TCP needs time to reach the full rate, and a rate limit lets a burst
through at the start."""
_WINDOW_S = 0.1
"""The rate is measured over windows of at least this length."""
_CHUNK = bytes(256 * 1024)
_MESSAGE = bytes(8)
_NUMBER = struct.Struct("<d")
_CLOSE_AT_ONCE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER for which close() discards what was not sent yet."""


def main() -> None:
    die_with_parent()
    stdin, stdout = stdio_pipes()
    sender, receiver = Sender(stdout), Receiver[ToTask](stdin, ToTask)
    order = Receiver[LinkOrder](stdin, LinkOrder).receive()
    try:
        if order:
            _serve_controller(order, sender, receiver)
    except Exception as error:
        sender.send(Failed(summarize_error(error), ""))
    os._exit(0)


def _serve_controller(order: LinkOrder, sender: Sender, receiver: "Receiver[ToTask]") -> None:
    """Carry out the controller's requests until it sends Halt or closes the pipe."""
    addresses: dict[str, str] = {}
    with listening_socket(order.address, order.ports) as listener:
        threading.Thread(target=_serve_probes, args=(listener, order.token.encode()), daemon=True).start()
        sender.send(Bound({PURPOSE: f"{order.address}:{listener.getsockname()[1]}"}))
        while (message := receiver.receive()) and not isinstance(message, Halt):
            if isinstance(message, Peers):
                addresses = {host: announced[PURPOSE] for host, announced in message.addresses.items()}
            elif isinstance(message, MeasureLinks):
                sender.send(LinksMeasured(_measure_all(message, addresses, order.token.encode())))


def _measure_all(request: MeasureLinks, addresses: dict[str, str], token: bytes) -> tuple[LinkMeasurement, ...]:
    def measure(receiver: str) -> LinkMeasurement:
        try:
            return _measure(request, receiver, addresses[receiver], token)
        except OSError as error:
            return LinkMeasurement(receiver=receiver, error=reason_of(error))

    with ThreadPoolExecutor(max_workers=max(1, len(request.receivers))) as threads:
        return tuple(threads.map(measure, request.receivers))


def reason_of(error: OSError) -> str:
    """Why a connection failed, in the words of the system but in one form: `connection timed out`."""
    if isinstance(error, TimeoutError):
        return "connection timed out"
    return (error.strerror or str(error)).lower()


def _measure(request: MeasureLinks, receiver: str, address: str, token: bytes) -> LinkMeasurement:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
        connection.settimeout(_SILENT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if request.what == "rate":
            return LinkMeasurement(receiver=receiver, mb_s=_send(connection, token, request.seconds))
        if request.what == "rtt":
            connection.sendall(token + _ECHO)
            times_s = _round_trips(connection)
            return LinkMeasurement(receiver=receiver, rtt_s=median(times_s), rtt_min_s=min(times_s))
        connection.sendall(token + _REACH)
        _receive_exactly(connection, len(_REACH))
        return LinkMeasurement(receiver=receiver)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("connected, but what listens there is not the probe of this run")
        data += part
    return bytes(data)


def _round_trips(connection: socket.socket) -> list[float]:
    """Seconds that each of several small messages took to the other host and back; the first is not counted."""
    times_s: list[float] = []
    end = time.perf_counter() + _ROUND_TRIPS_S
    for number in range(_ROUND_TRIPS + 1):
        start = time.perf_counter()
        connection.sendall(_MESSAGE)
        _receive_exactly(connection, len(_MESSAGE))
        times_s += [time.perf_counter() - start] if number else []
        if len(times_s) >= _FEWEST_ROUND_TRIPS and time.perf_counter() > end:
            break
    return times_s


def _send(connection: socket.socket, token: bytes, seconds: float) -> float:
    """Send for some seconds as much as the link carries; returns the rate in MB/s at which it arrived."""
    # Closed at once: what a slow link still holds at the end must not delay the next measurement.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
    connection.sendall(token + _RATE + _NUMBER.pack(seconds))
    connection.settimeout(seconds)
    end = time.monotonic() + seconds
    with suppress(TimeoutError):  # The link carries less than the buffer holds.
        while time.monotonic() < end:
            connection.send(_CHUNK)
        # The receiver may have started later; the end of the data tells it that no more will come.
        connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_SILENT_S)
    return float(_NUMBER.unpack(_receive_exactly(connection, _NUMBER.size))[0])


def _serve_probes(listener: socket.socket, token: bytes) -> None:
    """Accept connections of other probes. Each has a thread, so that one without the token delays no other."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve_probe, args=(connection, token), daemon=True).start()


def _serve_probe(connection: socket.socket, token: bytes) -> None:
    with connection, suppress(OSError):
        connection.settimeout(_SILENT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not hmac.compare_digest(_receive_exactly(connection, len(token)), token):
            return
        answers: dict[bytes, Callable[[socket.socket], None]] = {_REACH: _answer, _ECHO: _echo, _RATE: _receive}
        if answer := answers.get(connection.recv(1)):
            answer(connection)


def _answer(connection: socket.socket) -> None:
    connection.sendall(_REACH)


def _echo(connection: socket.socket) -> None:
    while data := connection.recv(len(_MESSAGE)):
        connection.sendall(data)


def _receive(connection: socket.socket) -> None:
    """Read what arrives in the announced time, and answer with the rate."""
    (seconds,) = _NUMBER.unpack(_receive_exactly(connection, _NUMBER.size))
    buffer = bytearray(len(_CHUNK))
    opened, total, progress = time.monotonic(), 0, [(0.0, 0)]
    while progress[-1][0] < seconds and (received := connection.recv_into(buffer)):
        total += received
        progress.append((time.monotonic() - opened, total))
    measured = [point for point in progress if point[0] >= _SKIP_S] or progress
    connection.sendall(_NUMBER.pack(best_rate(measured) / 1e6))
    # Data that arrives after close() would discard the answer on the other side, so read on until the sender closes.
    while connection.recv_into(buffer):
        pass


def best_rate(progress: Sequence[tuple[float, int]]) -> float:
    """Bytes per second in the best window of a transfer, or in all of it if it is shorter than a window.

    `progress` is a list of (seconds, bytes received so far). The best window counts because the link has carried that
    much; a slower moment may be due to TCP's search for the rate or to a busy core, not to the link.
    """
    best, start = 0.0, 0
    for end_s, total in progress:
        while start + 1 < len(progress) and end_s - progress[start + 1][0] >= _WINDOW_S:
            start += 1
        if end_s - progress[start][0] >= _WINDOW_S:
            best = max(best, (total - progress[start][1]) / (end_s - progress[start][0]))
    duration_s = progress[-1][0] - progress[0][0]
    return best or (progress[-1][1] - progress[0][1]) / max(duration_s, 1e-9)


if __name__ == "__main__":
    main()
