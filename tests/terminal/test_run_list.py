"""The list of runs."""

from analyze.made import made
from paceline.store.verdict import Verdict
from paceline.terminal.run_list import _bottleneck


def test_a_bottleneck_that_is_not_clear_is_called_so() -> None:
    unclear = Verdict(cause="not clear", where="", share=0.0, evidence=[], remedy=[])
    assert _bottleneck(made(verdict=unclear)) == "not clear"
    assert _bottleneck(made(verdict=unclear, updates_per_s=0.0)) == "-"
