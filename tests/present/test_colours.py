from itertools import combinations

from paceline.present.colours import LINE_COLOURS, PHASE_COLOURS
from paceline.recording.layout import SHOWN_NAMES

OF_SCRIPTS = {"forward", "backward", "exchange", "optimizer", "other"}
OF_WORKLOADS = {"pull", "compute", "push", "fused"}
"""Phases that steps of workloads have and steps of users' scripts do not."""


def test_every_phase_has_a_colour() -> None:
    assert PHASE_COLOURS.keys() == set(SHOWN_NAMES)


def test_phases_that_a_run_can_have_together_have_different_colours() -> None:
    for absent in (OF_SCRIPTS, OF_WORKLOADS):
        colours = [colour for phase, colour in PHASE_COLOURS.items() if phase not in absent]
        assert all(one != other for one, other in combinations(colours, 2))
    assert set(LINE_COLOURS) <= set(PHASE_COLOURS.values())
