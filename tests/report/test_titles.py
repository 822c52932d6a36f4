from pathlib import Path

import msgspec

from paceline.analyze.repeats import Group
from paceline.report.titles import titles, without
from report.stored import result_of, store_run


def test_a_title_is_what_sets_a_configuration_apart(runs: Path) -> None:
    base = result_of(store_run(runs))
    shapes = ((1, "pw"), (2, "p w"))
    groups = [Group((msgspec.structs.replace(base, batch=batch, layout=layout),)) for batch, layout in shapes]
    assert titles(groups) == ["'pw' batch 1", "'p w' batch 2"]
    assert without(groups[0], groups, "batch") == "'pw'"
    assert titles(groups[:1]) == ["torch ps-async 'pw' batch 1"]


def test_what_was_not_asked_for_is_left_out_unless_nothing_else_is_to_be_said(runs: Path) -> None:
    base = result_of(store_run(runs))

    def group(**settings: object) -> Group:
        return Group((msgspec.structs.replace(base, settings=base.settings | settings),))

    assert titles([group(lr=0.1), group(lr=None, momentum=0.9)]) == ["lr 0.1", "momentum 0.9"]
    assert titles([group(lr=0.1), group(lr=None)]) == ["lr 0.1", "lr -"]
