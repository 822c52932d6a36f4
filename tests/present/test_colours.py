from itertools import combinations

from paceline.present.colours import LINE_COLOURS, PHASE_COLOURS
from paceline.recording.layout import TIMED_NAMES


def test_every_phase_has_a_colour_of_its_own() -> None:
    assert PHASE_COLOURS.keys() == set(TIMED_NAMES)
    assert all(one != other for one, other in combinations(PHASE_COLOURS.values(), 2))
    assert set(PHASE_COLOURS.values()) == set(LINE_COLOURS)
