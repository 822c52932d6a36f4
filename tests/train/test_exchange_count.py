"""What a worker exchanged in its steps."""

from typing import Any, cast

from paceline.train.exchange_count import ExchangeCount
from paceline.train.strategy import Exchanged


class Worker:
    """A strategy that exchanges nothing and only counts its steps and bytes."""

    def __init__(self) -> None:
        self.exchanged = Exchanged(sent=500, received=500)

    def step(self) -> None:
        self.exchanged.sent += 10
        self.exchanged.received += 20


def test_a_last_step_that_does_not_count_is_left_out() -> None:
    worker = Worker()
    count = ExchangeCount(cast(Any, worker))
    for _ in range(3):
        count.step_begins()
        worker.step()
    worker.exchanged.received += 7  # An evaluation between two steps.
    count.step_begins()
    worker.step()
    count.discard_step()
    assert count.total() == Exchanged(sent=30, received=67)


def test_a_strategy_that_counts_nothing_has_no_total() -> None:
    count = ExchangeCount(cast(Any, object()))
    count.step_begins()
    count.discard_step()
    assert count.total() is None
