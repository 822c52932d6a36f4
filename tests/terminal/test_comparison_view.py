from io import StringIO

import pytest
from rich.console import Console

from analyze.made import made, repeats
from paceline.analyze.comparison import compare
from paceline.store.result import Result
from paceline.terminal.compare import comparison_view


def shown(results: list[Result], width: int) -> str:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(comparison_view(compare(results)))
    return console.export_text()


def grid() -> list[Result]:
    found = []
    for strategy in ("ps-sync", "ps-async"):
        for workers in (1, 2, 3):
            paces = [40_000.0 * workers * factor for factor in (0.98, 1.0, 1.03)]
            found += repeats(
                "grid", paces, "examples_per_s", strategy=strategy, workers=workers, to_loss_s=3.0, staleness=1.5
            )
    return found


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_broken(width: int) -> None:
    lines = shown(grid(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("ps-async  pw w w ") for line in lines) >= 2
    assert any("120,000 ± 3,600" in line for line in lines)


def test_what_all_have_in_common_is_said_once() -> None:
    said = shown(grid(), 100)
    assert said.startswith("logreg · torch · batch 100 · on local · until loss=0.5\n")
    assert said.count("logreg") == 1


def test_a_grid_of_workers_shows_how_it_scales() -> None:
    said = shown(grid(), 100)
    assert "Weak scaling from ps-sync 'pw': each worker's batch stays, so all take more" in said
    assert "3.00× (2.8 to 3.2×)" in said
    assert "all hosts share this machine's cores" in said


def test_figures_that_nobody_has_take_no_room() -> None:
    said = shown([made(batch=100), made(batch=200)], 100)
    for absent in ("to target", "value", "loopback", "±", "Sync against async", "scaling"):
        assert absent not in said


def test_a_busy_machine_is_noted() -> None:
    assert "other programs used up to 1.2 cores" in shown([made(batch=100), made(batch=200, other_cores_mean=1.2)], 120)
    assert "other programs" not in shown(grid(), 120)


def test_a_target_that_was_missed_is_said() -> None:
    said = shown([made("a-1", to_loss_s=1.0), made("a-2", batch=50, stop=["loss=0.5"])], 100)
    assert "batch 50 reached loss=0.5 in 0 of 1 runs" in said


def test_runs_that_all_failed_are_shown_all_the_same() -> None:
    said = shown([made("a-1", status="failed", reason="killed"), made("a-2", batch=50, status="failed")], 80)
    assert "0 of 1" in said
    assert "left out: a-1, failed: killed" in said
