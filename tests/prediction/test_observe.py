"""What a stored run says about its exchange, against values computed by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.plan.roles import WORKER
from paceline.prediction.observe import repeated_part
from prediction.setups import make_setup

STEPS, SECONDS = 100, 2.0
NEEDED = 3e6
"""Bytes that a worker sends and receives in a step."""


def result(layout: str, carried_mb: float) -> Any:
    """A run in which the hosts together sent this much in a step of all workers, in packets of 1000 bytes."""
    places = make_setup("ps-sync", layout).places
    mb_s, packets_s = carried_mb * STEPS / SECONDS, carried_mb * 1e3 * STEPS / SECONDS
    sent = SimpleNamespace(tx_mb_s_mean=mb_s, tx_packets_s_mean=packets_s)
    return SimpleNamespace(
        workers=[SimpleNamespace(task=one.task, own_steps=STEPS) for one in places if one.role == WORKER],
        hosts=[SimpleNamespace(external=sent)],
        train_s=SECONDS,
    )


@pytest.mark.parametrize(
    ("layout", "needed_mb"),
    [("p w", 3.0), ("p w w", 6.0), ("pw w", 3.0), ("pw pw", 3.0), ("p p w", 3.0)],
)
def test_bytes_beyond_what_the_exchange_needs_are_found(layout: str, needed_mb: float) -> None:
    setup = make_setup("ps-sync", layout)
    headers = 1 - 66 / 1000
    assert repeated_part(result(layout, needed_mb / headers), setup, NEEDED) == 0
    assert repeated_part(result(layout, 2 * needed_mb / headers), setup, NEEDED) == pytest.approx(1)


def test_headers_and_small_messages_are_not_counted() -> None:
    assert repeated_part(result("p w", 3.5), make_setup("ps-sync", "p w"), NEEDED) == 0


def test_on_one_host_nothing_is_known() -> None:
    assert repeated_part(result("pw", 5.0), make_setup("ps-sync", "pw"), NEEDED) == 0


def test_without_servers_nothing_is_repeated() -> None:
    assert repeated_part(result("p w", 50.0), make_setup("allreduce", "w w"), NEEDED) == 0
