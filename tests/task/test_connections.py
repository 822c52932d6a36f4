"""Dead connections are told from slow ones by what the kernel knows of them."""

import socket
import sys

import pytest

from paceline.task.connections import SILENCE_S, Health, connections

LONG = SILENCE_S + 1
WELL = Health(established=True, retransmits=0, probes=0, unacknowledged=0, unsent=0, silent_s=0.1)


@pytest.mark.parametrize(
    ("health", "is_dead"),
    [
        (WELL, False),
        (WELL._replace(silent_s=LONG, unacknowledged=5, retransmits=5), True),
        (WELL._replace(silent_s=LONG, probes=4), True),
        (WELL._replace(silent_s=1.0, unacknowledged=5, retransmits=3), False),
        # The other process reads nothing, but its host answers each try.
        (WELL._replace(silent_s=LONG, unsent=10_000_000, probes=4), False),
        (WELL._replace(silent_s=LONG, unacknowledged=5, retransmits=1), False),
        (WELL._replace(established=False, silent_s=LONG, probes=9), False),
    ],
)
def test_only_a_host_that_does_not_answer_is_dead(health: Health, is_dead: bool) -> None:
    assert health.is_dead is is_dead


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux' kernel")
def test_a_real_connection_is_found_well_and_will_ask_for_signs_of_life() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
        with client, served:
            client.sendall(b"hello")
            assert served.recv(5) == b"hello"
            found = [health for address, health in connections() if address == "127.0.0.1"]
            assert len(found) >= 2
            assert not any(health.is_dead for health in found)
            assert any(health.established and health.silent_s < SILENCE_S for health in found)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert client.getblocking()
