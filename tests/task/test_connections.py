"""Dead connections are distinguished from slow ones by what the kernel reports about them."""

import socket
import sys

import pytest

from paceline.task.connections import SILENCE_S, Health, connections

TOO_LONG_S = SILENCE_S + 1
HEALTHY = Health(established=True, retransmits=0, probes=0, unacknowledged=0, unsent=0, silent_s=0.1)


@pytest.mark.parametrize(
    ("health", "is_dead"),
    [
        (HEALTHY, False),
        (HEALTHY._replace(silent_s=TOO_LONG_S, unacknowledged=5, retransmits=5), True),
        (HEALTHY._replace(silent_s=TOO_LONG_S, probes=4), True),
        (HEALTHY._replace(silent_s=1.0, unacknowledged=5, retransmits=3), False),
        # The other process does not read, but its host answers each probe.
        (HEALTHY._replace(silent_s=TOO_LONG_S, unsent=10_000_000, probes=4), False),
        (HEALTHY._replace(silent_s=TOO_LONG_S, unacknowledged=5, retransmits=1), False),
        (HEALTHY._replace(established=False, silent_s=TOO_LONG_S, probes=9), False),
    ],
)
def test_a_connection_is_dead_only_if_the_other_host_does_not_answer(health: Health, is_dead: bool) -> None:
    assert health.is_dead is is_dead


@pytest.mark.skipif(sys.platform != "linux", reason="needs TCP_INFO of Linux")
def test_a_real_connection_is_healthy_and_gets_keep_alive_probes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
        with client, served:
            client.sendall(b"hello")
            assert served.recv(5) == b"hello"
            healths = [health for address, health in connections() if address == "127.0.0.1"]
            assert len(healths) >= 2
            assert not any(health.is_dead for health in healths)
            assert any(health.established and health.silent_s < SILENCE_S for health in healths)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert client.getblocking()
