"""How a worker waits at the barrier."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from paceline.engines.spark.worker import Barrier
from paceline.errors import PeersGone


def wait_for(barrier: Barrier, opened: threading.Event) -> int:
    assert barrier.opened_ns == 0
    opened.set()
    while not (opened_ns := barrier.opened_ns):
        pass
    return opened_ns


def test_a_worker_goes_on_while_it_waits_for_the_others() -> None:
    opened = threading.Event()
    rendezvous: Any = SimpleNamespace(start_together=opened.wait)
    assert wait_for(Barrier(rendezvous), opened) > 0


def test_an_error_at_the_barrier_reaches_the_worker() -> None:
    opened = threading.Event()

    def fail() -> None:
        opened.wait()
        raise PeersGone("the controller is gone")

    rendezvous: Any = SimpleNamespace(start_together=fail)
    with pytest.raises(PeersGone, match="the controller is gone"):
        wait_for(Barrier(rendezvous), opened)
