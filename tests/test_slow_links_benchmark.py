"""The tables of low-communication training: what they say of a run that reached its target, and of one that did not."""

from pathlib import Path

import pytest
from bench import slow_links
from bench.slow_links import ROWS, Figures, table, write_between

from paceline import pipeline
from paceline.spec.load import experiment


def found(seconds: float, sent_mb: float, *, reached: bool = True) -> Figures:
    return Figures(
        reached=reached, seconds=seconds, updates=900, sent_mb=sent_mb, accuracy=0.91, loss=0.08, cause="network"
    )


def test_rows_are_compared_with_the_first() -> None:
    lines = list(table([("--strategy allreduce", found(200, 150)), ("--strategy diloco", found(25, 1.5))], "97%"))
    assert lines[2] == "| `--strategy allreduce` | 200 |  | 900 | 150 |  | 0.080 | network |"
    assert lines[3] == "| `--strategy diloco` | 25 | 8× | 900 | 1.5 | 100× | 0.080 | network |"


def test_a_baseline_that_missed_the_target_gives_lower_bounds() -> None:
    rows = [("a", found(600, 150, reached=False)), ("b", found(60, 15)), ("c", found(600, 9, reached=False))]
    _, _, baseline, better, missed = table(rows, "97%")
    assert "| not in 600 (91.0%) |  |" in baseline
    assert "| 60 | over 10× | 900 | 15 | over 10× |" in better
    assert "| not in 600 (91.0%) |  | 900 | 9 |  |" in missed


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{slow_links._BEGIN}\nold\n{slow_links._END}\nafter\n")
    write_between(page, ["new", ""])
    assert page.read_text() == f"before\n{slow_links._BEGIN}\nnew\n\n{slow_links._END}\nafter\n"
    assert slow_links._BEGIN in slow_links._PAGE.read_text()
    assert slow_links._END in slow_links._PAGE.read_text()


@pytest.mark.netns
def test_every_row_can_be_planned() -> None:
    for row in ROWS:
        fields = {"workload": "lenet", "layout": "w w w", "hosts": "netns", "link": "10mbit", **row.fields}
        assert len(pipeline.plan(experiment(fields))) == 1
