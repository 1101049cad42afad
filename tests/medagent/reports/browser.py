"""A real browser for tests of the HTML report: Playwright's driver with the Chromium that is on the machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Opened:
    """A page of a report, what its console said, and what it asked for beside the file itself."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def go(self, file: Path, item: str = "") -> None:
        """Open a report, or one of its items, and wait until it can be used."""
        self.page.goto("about:blank")
        self.page.goto(f"{file.as_uri()}#{item}")
        self.page.wait_for_selector("html[data-ready]")
        if item:
            self.page.wait_for_selector("#item-title")

    def until(self, selector: str, text: str) -> None:
        """Wait until an element shows a text. The page's policy lets no script of a test wait inside of it."""
        self.page.locator(selector).filter(has_text=text).wait_for()

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return str(self.page.locator(selector).inner_text())

    def rows(self) -> list[str]:
        """The items that the list shows."""
        return list(self.page.locator("#items .row b").all_inner_texts())


def program() -> str:
    """The browser; skips the test where there is none, or no driver, and says how to get one."""
    pytest.importorskip("playwright.sync_api", reason="needs playwright: see CONTRIBUTING, Browser")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("this machine has no Chromium: see CONTRIBUTING, Browser")
    return found


@contextmanager
def opened(**options: Any) -> Iterator[Opened]:
    """A page in a browser of its own. While it is open the thread has an event loop: nothing else may run one."""
    executable = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            found = Opened(browser.new_page(**options))
            found.page.on("console", lambda message: found.said.append(message.text))
            found.page.on("pageerror", lambda error: found.said.append(str(error)))
            found.page.on("request", lambda request: found.asked.append(request.url))
            yield found
        finally:
            browser.close()


def serious(found: Opened) -> list[str]:
    """What axe-core finds serious or critical on the page as it is; skips where axe-core is not installed."""
    package = find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("axe-core is not installed: see CONTRIBUTING, Browser")
    # The page's policy lets no other script in; a debugger's evaluation is outside of it.
    found.page.evaluate(Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    result = found.page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:160]} {violation['nodes'][0]['failureSummary'][:200]}"
        for violation in result
        if violation["impact"] in ("serious", "critical")
    ]
