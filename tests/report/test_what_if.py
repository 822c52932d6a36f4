"""Sliders that show predictions for other settings, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import run_command
from paceline.page.blocks import Page as PageData
from paceline.page.blocks import Section, Text
from paceline.prediction.grid import WhatIfGrid, what_if_grid
from paceline.report import what_if
from paceline.report.build import build
from paceline.report.page import report_html
from paceline.report.what_if import what_if_block
from paceline.store.paths import all_runs
from prediction.observations import profile
from report.stored import store_run
from support.browser import CHROMIUM, draw_all, open_browser, opened, violations
from ui.serving import serving

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
SLIDERS = ".whatif input[type=range]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs from which others can be predicted, on hosts whose links have no known rate."""
    runs = tmp_path_factory.mktemp("what-if") / "runs"
    store_run(runs, name="measured", batch=100, task_samples=True)
    store_run(runs, name="measured", batch=50, pace=1.2, task_samples=True)
    return runs


def grid() -> WhatIfGrid:
    base = profile()[0]
    return what_if_grid(base, profile(), budget_s=1.5)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_sliders_move_over_the_predictions(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    found = grid()
    section = Section(key="what-if", title="What if", blocks=[what_if_block(found, profile()[0])])
    file = tmp_path / "report.html"
    file.write_text(report_html(PageData(title="made", subtitle="", problems=[], sections=[section])))
    problems: list[str] = []
    page = opened(browser, file.as_uri(), problems, width=width, color_scheme=scheme)
    draw_all(page)
    answer = page.locator(".whatif-answer")
    assert answer.inner_text().startswith("1 Gbit/s, 1 worker, batch 32: predicted ")
    assert "measured: " in answer.inner_text()
    assert "(run-0)" in answer.inner_text()
    assert page.locator(".whatif circle.predicted").count() == len(found.links)
    assert page.locator(".whatif .measured").count() == 1
    page.locator(SLIDERS).nth(0).focus()
    page.keyboard.press("Home")
    assert answer.inner_text().startswith("100 Mbit/s, 1 worker, batch 32: predicted ")
    assert "measured" not in answer.inner_text()
    page.get_by_role("button", name="over workers").click()
    page.get_by_role("button", name="updates/s").click()
    assert "updates/s (80 % interval" in answer.inner_text()
    assert page.locator(".whatif .measured").count() == 0
    page.get_by_role("button", name="Guess first").click()
    assert page.locator(".whatif-answer .hide-when-guessing").is_hidden()
    page.get_by_role("button", name="Guess first").click()
    assert page.locator(".whatif-answer .hide-when-guessing").inner_text().startswith(", bottleneck: ")
    page.get_by_role("button", name="As measured").click()
    assert page.locator(".whatif .measured").count() == 1
    assert page.locator(".whatif circle.predicted").count() == len(found.workers)
    point = found.points[(found.links.index(1e9) * len(found.workers)) * len(found.batches) + found.batches.index(32)]
    assert point
    assert f"predicted {point.updates_per_s:.0f} updates/s" in answer.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert violations(page) == []
    assert problems == []
    page.close()


def test_a_report_file_has_the_predictions(browser: Any, runs: Path) -> None:
    out = runs.parent / "report.html"
    assert run_command(["report", "measured", "--runs", str(runs), "--out", str(out)]) == 0
    problems: list[str] = []
    page = opened(browser, out.as_uri(), problems)
    page.locator(".whatif").scroll_into_view_if_needed()
    assert page.locator(SLIDERS).count() == 2  # Workers and batch: these hosts have no links.
    # Around the best configuration, which reached the target first.
    assert "2 workers, batch 50: predicted " in page.locator(".whatif-answer").inner_text()
    page.get_by_role("button", name="over batch").click()
    assert page.locator(".whatif .measured").count() == 2
    assert problems == []
    page.close()


@pytest.mark.slow
def test_the_page_predicts_when_it_is_asked(browser: Any, runs: Path) -> None:
    problems: list[str] = []
    with serving(runs) as server:
        page = opened(browser, f"{server.url}#/sweep/measured", problems)
        assert page.locator(".whatif").count() == 0
        page.get_by_role("button", name="Predict other settings").click()
        page.locator(".whatif-answer").wait_for(timeout=90_000)
        assert page.locator(SLIDERS).count() == 2
        assert violations(page) == []
        page.close()
    assert problems == []


def test_runs_that_say_too_little_give_a_sentence(runs: Path, tmp_path: Path) -> None:
    store_run(tmp_path / "runs", name="bare")
    out = tmp_path / "report.html"
    assert run_command(["report", "bare", "--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    text = out.read_text()
    assert "No prediction for other settings is possible: run bare-1 cannot be used to predict others" in text


def test_long_runs_are_not_read_for_predictions(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "_MOST_STEPS", 500)
    selected = list(all_runs(runs))
    report = build("long", selected)
    (block,) = what_if.what_if_blocks(
        report.groups, report.best_configurations, {str(paths.directory): paths for paths in selected}
    )
    assert isinstance(block, Text)
    assert "measured-2 has too many steps" in block.text
