"""A real browser for tests of the page: Chromium by playwright, and the accessibility checks of axe-core."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
Page = Any


@contextmanager
def open_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Without the sandbox, which root in a container cannot use; the page is our own.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, url: str, problems: list[str], *, width: int = 1280, height: int = 800, **more: Any) -> Page:
    """The page at `url`. Errors, warnings and requests to other machines are added to `problems`."""
    page = browser.new_page(viewport={"width": width, "height": height}, **more)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    page.on("request", lambda request: problems.append(request.url) if _is_foreign(request.url, url) else None)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    return page


def _is_foreign(requested: str, url: str) -> bool:
    if not requested.startswith(("http:", "https:", "ws:", "wss:")):
        return False
    return not url.startswith("http") or requested.split("/")[2] != url.split("/")[2]


def violations(page: Page) -> list[str]:
    """What axe reports about the page as it is now, one line each. The page's own policy stays in force."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)")
    return [f"{one['id']}: {one['help']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


def draw_all(page: Page) -> int:
    """Scroll to every chart and wait until it is drawn; the number of charts."""
    plots = page.locator(".plot:visible")
    for number in range(plots.count()):
        plots.nth(number).scroll_into_view_if_needed()
        # Not by wait_for_function, which evaluates text: the policy of the page forbids that.
        plots.nth(number).and_(page.locator("[data-drawn]")).wait_for()
    return int(plots.count())
