from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from analyze.made import made, repeats
from paceline.analyze.comparison import compare
from paceline.store.result import Result
from paceline.store.verdict import Verdict
from paceline.terminal.compare import comparison_view


def rendered(results: list[Result], width: int) -> str:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(comparison_view(compare(results)))
    return console.export_text()


def grid() -> list[Result]:
    found = []
    for strategy in ("ps-sync", "ps-async"):
        for workers in (1, 2, 3):
            rates = [40_000.0 * workers * factor for factor in (0.98, 1.0, 1.03)]
            found += repeats(
                "grid", rates, "examples_per_s", strategy=strategy, workers=workers, to_loss_s=3.0, staleness=1.5
            )
    return found


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_broken(width: int) -> None:
    lines = rendered(grid(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("ps-async  pw w w ") for line in lines) >= 2
    assert any("120,000 [117,600–123,600]" in line for line in lines)


def test_common_settings_are_shown_once() -> None:
    text = rendered(grid(), 100)
    assert text.startswith("logreg · torch · batch 100 · local hosts · until loss=0.5\nmedian [min–max] over repeats\n")
    assert text.count("logreg") == 1


def test_each_configuration_has_its_bottleneck() -> None:
    network = Verdict(cause="network", where="h1, outbound link", share=0.62, evidence=[], remedy=[])
    results = [*repeats("a", [0.62], "accuracy", verdict=network), *repeats("b", [0.6], "accuracy", batch=50)]
    text = rendered(results, 160)
    assert "network: h1 62 %" in text
    assert "compute: w0 50 %" in text


def test_conditions_of_all_runs_are_in_the_heading() -> None:
    settings = {"stop": ["steps=100"], "link": "10mbit", "cpus": "0.5", "fault": ["kill w1 at step 5"], "lr": None}
    known: dict[str, Any] = {
        "settings": settings,
        "machine_cores": 2,
        "versions": {"torch": "2.13.0", "python": "3.11"},
    }
    results = [made(batch=batch, other_cores_mean=load, **known) for batch, load in ((50, 0.1), (100, 0.4))]
    for result in results:
        for worker in result.workers:
            worker.threads = 1
    assert rendered(results, 160).splitlines()[:3] == [
        "logreg · torch · ps-sync · 'pw w' · local hosts · until steps=100",
        "link 10mbit · cpus 0.5 · fault kill w1 at step 5",
        "2 cores · background load 0.1–0.4 cores · 1 thread per worker · torch 2.13.0 · python 3.11",
    ]


def test_runs_with_different_numbers_of_workers_have_a_scaling_table() -> None:
    text = rendered(grid(), 100)
    assert "Weak scaling (constant batch per worker), baseline ps-sync 'pw'" in text
    assert "3.00× (95 % CI 2.8–3.2)" in text
    assert "local hosts share the cores of this machine" in text


def test_columns_without_values_are_not_shown() -> None:
    text = rendered([made(batch=100), made(batch=200)], 100)
    for absent in ("to target", "value", "loopback", "[", "Synchronous and asynchronous", "scaling"):
        assert absent not in text


def test_background_load_is_noted() -> None:
    assert "background load: up to 1.2 cores" in rendered([made(batch=100), made(batch=200, other_cores_mean=1.2)], 120)
    assert "background load" not in rendered(grid(), 120)


def test_a_missed_target_is_noted() -> None:
    text = rendered([made("a-1", to_loss_s=1.0), made("a-2", batch=50, stop=["loss=0.5"])], 100)
    assert "batch 50: 0 of 1 runs reached loss=0.5" in text


def test_a_comparison_of_failed_runs_is_shown() -> None:
    text = rendered([made("a-1", status="failed", reason="killed"), made("a-2", batch=50, status="failed")], 80)
    assert "0 of 1" in text
    assert "excluded: a-1, failed: killed" in text


def test_runs_without_a_target_have_no_cost_of_reaching_it() -> None:
    def heading(**fields: Any) -> list[str]:
        results = [
            made(f"{strategy}-1", strategy=strategy, staleness=1.5, **fields) for strategy in ("ps-sync", "ps-async")
        ]
        return [line.strip() for line in rendered(results, 120).splitlines() if line.startswith("Synchronous and")]

    assert heading(to_loss_s=3.0) == ["Synchronous and asynchronous: cost of reaching the target"]
    assert heading(stop=["steps=200"]) in ([], ["Synchronous and asynchronous"])
