"""The report in a real browser: charts are drawn, controls work, and it fits wide and narrow screens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import run_command
from paceline.recording import folded_stacks
from paceline.store.paths import RunPaths
from report.stored import store_run
from report.test_flame_chart import STACKS, with_stacks
from support.browser import CHROMIUM, Page, draw_all, open_browser, opened, violations

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = tmp_path_factory.mktemp("report") / "runs"
    for strategy in ("ps-sync", "ps-async"):
        for layout in ("pw", "pw w", "pw w w"):
            for batch in (50, 200):
                store_run(runs, name="sweep", strategy=strategy, layout=layout, batch=batch, stop=["loss=0.3"])
    return written(runs, "sweep")


def written(runs: Path, *names: str) -> str:
    out = runs.parent / "report.html"
    assert run_command(["report", *names, "--runs", str(runs), "--out", str(out)]) == 0
    return out.as_uri()


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 800, "light"), (390, 844, "dark"), (3840, 2160, "light"), (1280, 800, "dark")],
)
def test_all_charts_are_drawn_and_fit_without_errors_or_barriers(
    browser: Any, report: str, width: int, height: int, scheme: str
) -> None:
    problems: list[str] = []
    page = opened(browser, report, problems, width=width, height=height, color_scheme=scheme)
    assert draw_all(page) >= 10
    assert page.title() == "sweep · Paceline"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert violations(page) == []
    assert problems == []
    page.close()


def test_the_answer_and_the_first_chart_are_on_the_first_screen(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    chart = page.locator("[data-key=metrics] .bar-row.best").bounding_box()
    assert chart["y"] + chart["height"] < 800
    assert page.locator(".goals li").first.bounding_box()["y"] < 300
    assert page.locator(".facts").first.bounding_box()["y"] < 300
    page.close()


def cells(page: Page, column: int) -> list[str]:
    found: list[str] = page.locator(f"[data-key=table-0] tbody tr > :nth-child({column})").all_inner_texts()
    return found


def test_a_table_is_sorted_by_any_column_with_the_keyboard(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    heading = page.locator("[data-key=table-0] thead th", has_text="batch")
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert cells(page, 4) == sorted(cells(page, 4), key=int, reverse=True)
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert cells(page, 4)[0] == "50"
    page.close()


def test_the_timeline_zooms_by_mouse_and_keyboard(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    canvas = page.locator("[data-key=timeline] canvas").first
    canvas.scroll_into_view_if_needed()
    page.wait_for_selector("[data-key=timeline] .plot[data-drawn]")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20, steps=5)
    page.mouse.up()
    low, high = map(float, canvas.get_attribute("data-range").split())
    canvas.focus()
    page.keyboard.press("+")
    closer = [float(value) for value in canvas.get_attribute("data-range").split()]
    assert closer[1] - closer[0] == pytest.approx((high - low) / 2)
    page.locator("[data-key=timeline] button", has_text="last steps").first.click()
    assert (
        page.locator("[data-key=timeline] button", has_text="last steps").first.get_attribute("aria-pressed") == "true"
    )
    page.close()


def test_another_run_can_be_selected(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    page.select_option(".choice select", "1")
    page.locator(".choice [data-key=hosts] .plot").scroll_into_view_if_needed()
    page.wait_for_selector(".choice [data-key=hosts] .uplot")
    page.close()


def test_a_command_is_copied(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    page.locator(".why summary").first.click()
    command = page.locator(".why .command").first
    command.locator("button").click()
    command.locator("button", has_text="copied").wait_for()
    assert command.locator("code").inner_text().startswith("paceline run ")
    page.close()


def test_in_teaching_mode_the_reader_guesses_first(browser: Any, report: str) -> None:
    page = opened(browser, report, [])
    page.locator("button.teach").click()
    page.locator(".why summary").first.click()
    assert page.locator(".why .waterfall").count() == 0
    assert page.locator("[data-key=metrics] .bar-row.best .note").is_hidden()
    guess = page.locator(".why form").first
    guess.locator("label", has_text="network").locator("input").check()
    guess.locator("button").click()
    assert page.locator(".why [role=status]").first.inner_text().startswith("You chose network")
    assert page.locator(".why .waterfall").first.is_visible()
    page.close()


def test_a_report_of_twenty_runs_is_at_most_two_and_a_half_megabytes(runs: Path) -> None:
    for number in range(20):
        store_run(runs, name="many", steps=2_000, layout="pw w w w", batch=10 * (number + 1))
    written(runs, "many")
    assert (runs.parent / "report.html").stat().st_size < 2_500_000


def test_hostile_names_are_shown_as_text(browser: Any, runs: Path) -> None:
    nasty = "</script><img src=x onerror=alert(1)>"
    problems: list[str] = []
    page = opened(
        browser, written(runs, store_run(runs, data=nasty, incident=nasty, end=("failed", nasty)).id), problems
    )
    draw_all(page)
    assert page.locator("img").count() == 0
    assert nasty in page.locator("#main").inner_text()
    assert problems == []
    page.close()


def test_the_sweep_of_the_fixtures_opens(browser: Any, runs: Path, sweep: list[RunPaths]) -> None:
    problems: list[str] = []
    page = opened(browser, written(runs, "sweep"), problems)
    assert page.locator(".goals li").count() >= 3
    assert problems == []
    page.close()


def test_the_flame_graph_is_used_by_keyboard_and_has_a_table(browser: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    problems: list[str] = []
    page = opened(browser, written(runs, with_stacks(runs, folded_stacks.encode(STACKS)).id), problems)
    chart = page.locator("[data-key=flames] [role=tree]")
    assert chart.locator("[role=treeitem]").count() == 7
    whole = chart.locator("[tabindex='0']")
    whole.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused).startswith("default_collate (torch/utils/data/_utils/collate.py): 20.0 %")
    page.keyboard.press("Enter")
    assert chart.locator("[role=treeitem]").count() == 4
    page.keyboard.press("Escape")
    assert chart.locator("[role=treeitem]").count() == 7
    page.locator("[data-key=flames] select").select_option(label="data (80 %)")
    first_row = page.locator("[data-key=flame-functions] tbody tr").first
    assert first_row.locator("th, td").all_inner_texts() == ["collate (train.py:8)", "75.0 %", "75.0 %"]
    assert violations(page) == []
    assert problems == []
    page.close()
