"""The parameter server's socket and pipes: strangers get nothing and cost nothing, a mad worker harms nobody else."""

import logging
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import zmq

from fuzz.mutations import mutants, quick_and_thorough
from paceline.paramserver.transports.curve_auth import CLIENT_PUBLIC, CLIENT_SECRET
from paceline.paramserver.transports.shared_memory import Segment, is_peer_path, path_of
from paceline.paramserver.wire import Op, Request
from paramserver.serving import VALUES, WORKER_KEYS, Running, client, hear_out, is_served, neighbour, running

MB = 10**6
PUSH = Request(Op.PUSH).head() + bytes(4 * VALUES)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"
STRANGERS = [
    GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x04\xc8\x05HELLO\x01" + bytes(193),
    GREETING + b"NULL".ljust(20, b"\0") + bytes(32) + b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER",
    GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x06\xff\xff\xff\xff\xff\xff\xff\xff",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """Of two workers: w0 keeps to the rules."""
    with running(tmp_path, workers=2) as made:
        yield made


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def others_keys() -> dict[str, str]:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    return {**WORKER_KEYS, CLIENT_PUBLIC: public, CLIENT_SECRET: secret}


@quick_and_thorough(3_000)
def test_a_worker_that_sends_anything_at_all_harms_nobody_else(
    server: Running, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    chance = random.Random(4)
    good = [*(Request(op).head() for op in Op if op is not Op.LEAVE), PUSH[:400], PUSH]
    names = ["w1", "w9", "", "w0" * 100]
    with ExitStack() as stack:
        worker = stack.enter_context(client(server.address, WORKER_KEYS))
        mad = [stack.enter_context(client(server.address, WORKER_KEYS, name)) for name in names]
        is_served(worker)
        before = resident()
        for number, data in enumerate(mutants(good, cases)):
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 5))))
            parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            chance.choice(mad).send_multipart(parts)  # and never reads an answer
            if number % 500 == 0:
                is_served(worker)
        is_served(worker)
        assert resident() - before < 60 * MB
        for one in mad:
            hear_out(one)
    assert len(caplog.records) < 40  # a line for each would fill the disk


def test_a_worker_that_asks_and_takes_no_answer_holds_nobody_up(server: Running) -> None:
    """Once the server waited for it to read: answers to all the others stopped."""
    with client(server.address, WORKER_KEYS) as worker, client(server.address, WORKER_KEYS, "w1") as deaf:
        deaf.rcvhwm = 1
        is_served(worker)
        before = resident()
        for _ in range(20):
            for _ in range(500):
                deaf.send(Request(Op.PULL).head())
            is_served(worker)
        assert resident() - before < 200 * MB  # 10,000 answers are 314 MB
        hear_out(deaf)


def test_whoever_has_the_key_may_take_a_workers_name_and_the_server_survives(server: Running) -> None:
    """Names are not secrets: a worker that was restarted takes its old one over. Only the key keeps others out."""
    with client(server.address, WORKER_KEYS) as first:
        is_served(first)
        with client(server.address, WORKER_KEYS) as second:
            is_served(second)
    with client(server.address, WORKER_KEYS, "w1") as other:
        is_served(other)


@pytest.mark.parametrize("keys", ["none", "others", "no server key"])
def test_strangers_get_nothing_and_cost_nothing(server: Running, keys: str) -> None:
    secrets = {
        "none": None,
        "others": others_keys(),
        "no server key": {**others_keys(), "curve-server-public": others_keys()[CLIENT_PUBLIC]},
    }[keys]
    with ExitStack() as stack:
        worker = stack.enter_context(client(server.address, WORKER_KEYS))
        update = is_served(worker).update
        strangers = [stack.enter_context(client(server.address, secrets, f"w{n % 2}")) for n in range(8)]
        before = resident()
        for stranger in strangers:
            stranger.linger, stranger.sndtimeo = 0, 0
            for _ in range(100):
                with suppress(zmq.Again):  # What is not let in takes only so much.
                    stranger.send(PUSH)
        for more in range(1, 200):
            assert is_served(worker).update == update + more
        assert not any(stranger.poll(0) for stranger in strangers)
        assert resident() - before < 60 * MB  # 25 MB of it lie with the strangers


@quick_and_thorough(300, 5_000)
def test_no_bytes_from_a_stranger_bring_the_server_down(server: Running, cases: int) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    before = resident()
    with client(server.address, WORKER_KEYS) as worker:
        for number, data in enumerate(mutants(STRANGERS, cases)):
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as raw:
                raw.sendall(data)
            if number % 100 == 0:
                is_served(worker)
        is_served(worker)
    assert resident() - before < 60 * MB


@pytest.mark.parametrize("hung_up", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_connections_that_are_opened_and_left_disturb_nobody_and_are_hung_up_on(server: Running, hung_up: bool) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    with ExitStack() as stack:
        worker = stack.enter_context(client(server.address, WORKER_KEYS))
        is_served(worker)
        before = resident()
        idle = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(300)]
        for _ in range(50):
            is_served(worker)
        assert resident() - before < 60 * MB
        for connection in idle if hung_up else ():
            connection.settimeout(20)
            while connection.recv(1024):  # its greeting, and then the end
                pass
        is_served(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="opens other processes' files through /proc")
@quick_and_thorough(3_000)
def test_a_neighbour_that_writes_anything_at_all_harms_nobody_else(
    tmp_path: Path, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    segments = [Segment(2 * VALUES), Segment(2 * VALUES)]
    peers = {f"w{number}": {"memory": segment.path} for number, segment in enumerate(segments)}
    file = (tmp_path / "file").open("wb")
    paths = [b"/proc/1/fd/99999999999", b"/etc/passwd", b"\xff" * 90]
    paths += [segments[1].path.encode(), path_of(file.fileno()).encode()]
    contents = [*(Request(op).head() for op in Op), *(Request(Op.START).head() + path for path in paths), *paths]
    good = [struct.pack("<HBB", 1, kind, len(content)) + content for content in contents for kind in (0, 1)]
    with running(tmp_path, workers=2, transport="memory", peers=peers) as server:
        worker = neighbour(server.address)
        worker.ask(Request(Op.START), segments[0].path.encode())
        before, updates = resident(), 0
        with open(server.address, "wb", buffering=0) as mad:
            for number, data in enumerate(mutants(good, cases)):
                slip = data[:128].ljust(128, b"\0")
                # Not in the name of the worker that keeps to the rules, nor from any pipe that happens to be open here.
                content = slip[4 : 4 + slip[3]]
                is_stray = content not in paths and is_peer_path(content.decode("ascii", "replace"))
                if slip[:2] != b"\0\0" and not is_stray:
                    mad.write(slip)
                if number % 500 == 0:
                    reply = worker.ask(Request(Op.PUSH))
                    assert reply.update > updates
                    updates = reply.update
        worker.ask(Request(Op.PULL))
        file.close()
        assert (tmp_path / "file").read_bytes() == b""
        assert resident() - before < 60 * MB
        worker.close()
    assert len(caplog.records) < 40


def test_a_message_larger_than_any_bucket_is_not_taken_in(server: Running) -> None:
    with client(server.address, WORKER_KEYS) as worker, client(server.address, WORKER_KEYS, "w1") as greedy:
        is_served(worker)
        greedy.send(bytes(4 * VALUES + 4_096))
        assert not greedy.poll(500)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and is_served(worker).update < 50:
            pass
        assert is_served(worker).update >= 50
