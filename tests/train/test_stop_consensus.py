"""Workers without a server must ask each other at the same updates, whatever their clocks say."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.train.stop_consensus import StopConsensus


class Room:
    """Plays the broadcast: the chief speaks first, then all others must ask before anyone goes on."""

    def __init__(self) -> None:
        self.word = (0, 0)
        self.asked = 0

    def as_chief(self, first: int, second: int) -> tuple[int, int]:
        self.asked += 1
        self.word = (first, second)
        return self.word

    def as_other(self, first: int, second: int) -> tuple[int, int]:
        self.asked += 1
        return self.word


@given(st.integers(1, 300), st.one_of(st.none(), st.integers(1, 50)))
def test_all_stop_at_the_same_update(wish_at: int, eval_every: int | None) -> None:
    room = Room()
    chief, other = StopConsensus(room.as_chief, eval_every), StopConsensus(room.as_other, eval_every)
    update = 0
    while True:
        update += 1
        before = room.asked
        stops = chief.stop_now(update >= wish_at, update)
        asked_chief = room.asked - before
        assert other.stop_now(False, update) == stops
        assert room.asked - before == 2 * asked_chief
        if stops:
            break
        assert update < 100_000
    assert update >= wish_at


def test_an_evaluation_that_wants_to_stop_is_heard_at_once() -> None:
    room = Room()
    chief = StopConsensus(room.as_chief, always_every=100)
    for update in range(1, 100):
        assert not chief.stop_now(False, update)
    assert chief.stop_now(True, 100)
