"""The pages of `paceline ui` in a real browser."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from report.stored import START_S, store_run
from support.browser import CHROMIUM, Page, draw_all, open_browser, opened, violations
from ui.growing_run import growing_run
from ui.serving import Server, serving

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
MOST_MS = 100
"""The longest time from an action in the list of runs until it is drawn, as measured in the page."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


def rows(page: Page) -> list[str]:
    found: list[str] = page.locator(".runs tbody th").all_inner_texts()
    return found


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_the_list_of_runs(browser: Any, server: Server, width: int, height: int, scheme: str) -> None:
    problems: list[str] = []
    page = opened(browser, server.url, problems, width=width, height=height, color_scheme=scheme)
    assert "<img src=x onerror=alert(2)>" in rows(page)
    assert page.locator("img").count() == 0
    page.get_by_label("Search runs").fill("modes ps-async")
    assert sorted(rows(page)) == ["modes-3", "modes-4"]
    page.get_by_role("button", name="Sweeps").click()
    assert rows(page) == ["modes (2)"]
    page.get_by_role("button", name="Sweeps").click()
    page.get_by_label("Search runs").fill("")
    page.get_by_label("Only this status").select_option("failed")
    assert rows(page) == ["nasty-1"]
    page.get_by_label("Only this status").select_option("")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert violations(page) == []
    assert problems == []
    page.close()


def test_runs_are_tagged_and_found_by_a_tag(browser: Any, tmp_path: Path) -> None:
    runs, problems = tmp_path / "runs", list[str]()
    for number in range(3):
        store_run(runs, name=f"run{number}", tag=["old"] if number == 0 else [])
    with serving(runs, "--edit") as server:
        page = opened(browser, server.url, problems)
        page.on("dialog", lambda dialog: dialog.accept(f"{dialog.default_value} baseline"))
        for run in ("run0-1", "run2-1"):
            page.get_by_label(f"Select {run}", exact=True).check()
        page.get_by_role("button", name="Tags", exact=True).click()
        page.get_by_label("Only this tag").locator("option", has_text="baseline").wait_for(state="attached")
        page.get_by_label("Only this tag").select_option("baseline")
        assert sorted(rows(page)) == ["run0-1", "run2-1"]
        assert page.locator(".runs td", has_text="old baseline").count() == 2
        page.get_by_label("Only this tag").select_option("")
        assert len(rows(page)) == 3
        assert violations(page) == []
        page.close()
    assert problems == []


def test_any_runs_can_be_compared(browser: Any, server: Server) -> None:
    problems: list[str] = []
    page = opened(browser, server.url, problems)
    for run in ("modes-1", "modes-3"):
        page.get_by_label(f"Select {run}", exact=True).check()
    page.get_by_role("button", name="Compare 2 selected").click()
    page.locator(".goals li").first.wait_for()
    assert "2 runs of 2 configurations" in page.locator("header").inner_text()
    draw_all(page)
    assert violations(page) == []
    page.reload()  # The address names the runs.
    page.locator(".goals li").first.wait_for()
    page.get_by_role("link", name="Paceline").click()
    page.locator(".runs").wait_for()
    assert problems == []
    page.close()


def test_a_hostile_or_damaged_run_is_shown_as_text(browser: Any, server: Server) -> None:
    problems: list[str] = []
    for run in ("nasty-1", "<img src=x onerror=alert(2)>"):
        page = opened(browser, f"{server.url}#/run/{quote(run)}", problems)
        page.locator("h2#answer").wait_for()
        assert page.locator("img").count() == 0
        page.close()
    assert problems == []
    page = opened(browser, server.url, [])
    page.get_by_role("link", name="broken-1").click()
    assert "damaged" in page.get_by_role("alert").inner_text()
    page.close()


def test_without_the_token_the_page_says_what_to_do(browser: Any, server: Server) -> None:
    page = browser.new_page()
    page.goto(server.url.partition("?")[0])
    assert "paceline ui" in page.get_by_role("alert").inner_text()
    page.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 runs: copies of the result of one, with other names and numbers."""
    runs = tmp_path_factory.mktemp("many") / "runs"
    first = store_run(runs, name="first", steps=20)
    result = json.loads(first.result.read_text())
    for number in range(1, 2_000):
        copy = runs / f"sweep{number % 40}-{number}"
        copy.mkdir()
        shutil.copy(first.spec, copy)
        changed = {
            "batch": number,
            "examples_per_s": float(number * 7 % 1_999),
            "strategy": ("ps-sync", "ps-async")[number % 2],
        }
        (copy / first.result.name).write_text(json.dumps(result | changed))
    return runs


_TIMED = """async () => {
    const begun = performance.now();
    ACTION;
    await new Promise(requestAnimationFrame);
    document.body.offsetHeight;
    return performance.now() - begun;
}"""
"""Milliseconds from an action until its result is drawn."""


@pytest.mark.alone
def test_two_thousand_runs_are_listed_without_lag(browser: Any, many: Path) -> None:
    with serving(many) as server:
        page = opened(browser, server.url, [])
        assert "2,000 runs" in page.get_by_role("status").inner_text()
        assert len(rows(page)) < 100
        actions = {
            "sort": "document.querySelectorAll('.runs thead button')[9].click()",
            "filter": "(s => { s.value = 'ps-sync'; s.dispatchEvent(new Event('change')); })"
            "(document.querySelector('[aria-label=\"Only this strategy\"]'))",
            "search": "(s => { s.value = 'sweep7'; s.dispatchEvent(new Event('input')); })"
            "(document.querySelector('[type=search]'))",
            "scroll": "document.querySelector('.runs-frame').scrollTop = 20000",
            "sweeps": "[...document.querySelectorAll('.filters button')].find(b => b.textContent === 'Sweeps').click()",
        }  # fmt: skip
        for name, action in actions.items():
            # The shortest of several times: other programs of the machine only make them longer.
            ms = min(page.evaluate(_TIMED.replace("ACTION", action)) for _ in range(5))
            print(f"{name}: {ms:.1f} ms")
            assert ms < MOST_MS, name
        page.close()


def test_thirty_two_workers_are_watched_and_a_stuck_one_stands_out(browser: Any, tmp_path: Path) -> None:
    problems: list[str] = []
    with growing_run(tmp_path, layout="pw" + " w" * 31) as growing, serving(tmp_path) as server:
        growing.join()
        page = opened(browser, f"{server.url}#/run/growing-1", problems)
        page.get_by_text("waiting for tasks to start").wait_for()
        growing.open()
        growing.train(4)
        page.locator("[data-task=w31]").wait_for()
        assert page.locator(".worker[data-task]").count() == 32
        growing.train(4, without=("w5",))
        growing.event("fault", START_S + 4, what="freeze w5 for 9s at 4s", task="w5", host="h6")
        page.locator("[data-task=w5].alert", has_text="fault: freeze").wait_for()
        page.locator(".now-bottleneck", has_text="since").wait_for()
        page.locator("[data-chart='network (MB/s)'] canvas").wait_for()
        assert page.locator(".marks li.fault").inner_text().startswith("4.0 s: fault: freeze w5")
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert violations(page) == []
        assert problems == []
        page.close()


def test_a_real_run_is_watched_from_start_to_end_over_a_reload(browser: Any, tmp_path: Path) -> None:
    """The numbers on the page are those of the result; the report takes the place of the live page at the end."""
    runs, problems = tmp_path / "runs", list[str]()
    command = [
        sys.executable,
        "-m",
        "paceline",
        "run",
        "logreg",
        "--strategy",
        "ps-async",
        "--layout",
        "pw w",
        "--json",
    ]
    command += ["--stop", "seconds=8", "--eval-every", "200", "--runs", str(runs), "--ui"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    address = next(line for line in process.stderr if line.startswith("page: ")).split()[1]
    page = opened(browser, address, problems)
    page.locator("[data-stage=training]").wait_for(timeout=60_000)
    page.reload()
    page.locator("[data-chart=Throughput] canvas").wait_for()
    page.locator(".tile", has_text="accuracy").get_by_text("%").wait_for()
    live = int(re.sub(r"\D", "", page.locator(".tile-value").first.inner_text()))
    # The page has the result as soon as the run has ended, which is before the command, and with it the page, ends.
    out, _ = process.communicate(timeout=120)
    result = json.loads(out)
    assert result["status"] == "ok"
    assert 0 < live <= result["updates"]
    assert not [line for line in problems if "ERR_" not in line and "Failed to fetch" not in line]
    page.close()
    with serving(runs) as server:
        page = opened(browser, f"{server.url}#/latest", [])
        page.locator("h2#answer").wait_for()
        steps = {worker["task"]: f"{worker['steps']:,}" for worker in result["workers"]}
        for task, text in steps.items():
            row = page.locator("[data-key=steps] .bar-row", has_text=f"{task} on ")
            assert row.locator(".value").inner_text() == text
        page.close()
