"""The page in a real browser: charts are drawn, controls work, and it fits wide and narrow screens."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import run_command
from paceline.store.paths import RunPaths

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
Page = Any


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Without the sandbox, which root in a container cannot use; the page is our own.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def report(runs: Path, sweep: list[RunPaths], tmp_path: Path) -> str:
    out = tmp_path / "report.html"
    assert run_command(["report", "sweep", "--runs", str(runs), "--out", str(out)]) == 0
    return out.as_uri()


def opened(browser: Any, url: str, width: int, problems: list[str]) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    page.goto(url)
    return page


def scroll_to(page: Page, key: str) -> Any:
    """Scroll to a chart and wait until it is drawn."""
    plot = page.locator(f"#{key}-plot")
    plot.scroll_into_view_if_needed()
    page.wait_for_selector(f"#{key}-plot .main-svg")
    return plot


def draw_all(page: Page) -> int:
    keys = page.eval_on_selector_all(
        ".plot", "plots => plots.filter(p => p.offsetParent).map(p => p.id.replace(/-plot$/, ''))"
    )
    for key in keys:
        scroll_to(page, key)
    return len(keys)


@pytest.mark.parametrize("width", [1280, 400])
def test_all_charts_are_drawn_without_errors_and_fit(browser: Any, report: str, width: int) -> None:
    problems: list[str] = []
    page = opened(browser, report, width, problems)
    assert draw_all(page) >= 10
    assert page.title() == "sweep: Paceline report"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert problems == []
    page.close()


def test_a_line_can_be_hidden(browser: Any, report: str) -> None:
    page = opened(browser, report, 1280, [])
    plot = scroll_to(page, "all-scaling")
    shown = "document.getElementById('all-scaling-plot')._fullData.filter(trace => trace.visible === true).length"
    before = page.evaluate(shown)
    plot.locator(".legendtoggle").first.click()
    page.wait_for_function(f"wanted => {shown} === wanted", arg=before - 1)
    page.close()


def test_the_timeline_can_be_zoomed_and_switched_to_other_steps(browser: Any, report: str) -> None:
    page = opened(browser, report, 1280, [])
    plot = scroll_to(page, "run-0-timeline")
    span = "plot => plot._fullLayout.xaxis.range"
    before = plot.evaluate(span)
    area = plot.locator(".nsewdrag").first.bounding_box()
    middle = area["y"] + area["height"] / 2
    page.mouse.move(area["x"] + area["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.5, middle, steps=5)
    page.mouse.up()
    page.wait_for_function(
        "width => { const r = document.getElementById('run-0-timeline-plot')._fullLayout.xaxis.range;"
        " return r[1] - r[0] < 0.3 * width; }",
        arg=before[1] - before[0],
    )
    buttons = page.locator("figure:has(#run-0-timeline-plot) button")
    buttons.filter(has_text="last steps").click()
    page.wait_for_function(
        "end => document.getElementById('run-0-timeline-plot')._fullLayout.xaxis.range[0] > end", arg=before[1]
    )
    assert buttons.filter(has_text="last steps").get_attribute("aria-pressed") == "true"
    page.close()


def test_another_run_can_be_selected(browser: Any, report: str) -> None:
    page = opened(browser, report, 1280, [])
    page.select_option("#run-choice", "run-1")
    assert page.locator("#run-0").is_hidden()
    scroll_to(page, "run-1-quality")
    page.locator("nav a", has_text="Step timeline").click()
    page.wait_for_selector("#run-1-timeline-plot .main-svg")
    page.close()


def test_curves_are_shown_over_updates_examples_and_seconds(browser: Any, report: str) -> None:
    page = opened(browser, report, 1280, [])
    plot = scroll_to(page, "run-0-quality")
    for name, title in (("examples", "examples"), ("seconds", "training time (s)"), ("updates", "updates")):
        page.locator("figure:has(#run-0-quality-plot) button").filter(has_text=name).click()
        page.wait_for_function(
            "title => document.getElementById('run-0-quality-plot')._fullLayout.xaxis.title.text === title", arg=title
        )
    assert plot.evaluate("plot => plot._fullData.length") >= 3
    page.close()
