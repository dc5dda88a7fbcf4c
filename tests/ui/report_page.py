"""Opens an exported HTML file in a browser without network, and records its requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.conftest import VIEWPORT
from tests.ui.board import BoardPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


@dataclass
class ReportPage:
    """The page, its requests other than for its own file, and its errors."""

    page: Page
    trouble: list[str] = field(default_factory=list)

    def source(self, name: str) -> dict[str, Any]:
        """Return the columns of the plot source with this name."""
        return BoardPage(self.page, "").source(name)

    def fact(self, name: str) -> str:
        """Return the value of a named entry in the head."""
        row = self.page.locator(".facts div").filter(has=self.page.get_by_text(name, exact=True))
        return row.locator("dd").text_content() or ""

    def cells(self, column: str) -> list[str]:
        """Return the texts of a table column."""
        return self.page.locator(f'td[data-column="{column}"]').all_text_contents()

    @property
    def shown(self) -> Locator:
        """The uid of the shown sample."""
        return self.page.locator("article.chosen")


@contextmanager
def opened(browser: Browser, path: Path, *scripts: str) -> Iterator[ReportPage]:
    """Open a file without network; ``scripts`` run before those of the page."""
    context = browser.new_context(viewport=VIEWPORT, color_scheme="dark", locale="en-US", offline=True)
    for script in scripts:
        context.add_init_script(script)
    report = ReportPage(context.new_page())
    url = path.as_uri()
    context.on("request", lambda asked: report.trouble.append(asked.url) if asked.url != url else None)
    context.on("console", lambda said: report.trouble.append(said.text) if said.type == "error" else None)
    context.on("weberror", lambda error: report.trouble.append(str(error.error)))
    report.page.goto(url)
    expect(report.page.locator("body[data-drawn]")).to_be_attached()
    yield report
    context.close()
    assert report.trouble == []
