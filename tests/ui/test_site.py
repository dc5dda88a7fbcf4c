"""The documentation site, opened from the disk: no requests, a search, narrow and dark pages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from docs.navigation import SECTIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs/site",
        ".",
        str(folder),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def reader(browser: Browser) -> Iterator[Page]:
    """A page that must not request anything but files."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="dark", locale="en-US"
    )
    left: list[str] = []
    context.on("request", lambda one: left.append(one.url) if not one.url.startswith("file:") else None)
    yield context.new_page()
    context.close()
    assert left == []


def test_the_first_page_leads_to_the_documentation(site: Path, reader: Page) -> None:
    reader.goto((site / "index.html").as_uri())
    expect(reader.get_by_role("heading", name="Documentation")).to_be_visible()
    expect(reader.locator("html")).to_have_attribute("data-theme", "dark")
    for section in SECTIONS:
        expect(
            reader.locator(".bd-sidebar-primary .caption").get_by_text(section, exact=True)
        ).to_be_visible()


def test_the_api_page_tells_of_public_methods(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/site/api.html").as_uri())
    expect(reader.locator("[id='rlpanel.Run.samples']")).to_be_visible()


def test_a_formula_is_drawn_without_a_script(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/metrics.html").as_uri())
    formula = reader.locator("math mfrac").first
    expect(formula).to_be_visible()
    assert formula.evaluate("(node) => node.children.length") == 2


def test_the_search_finds_a_metric(site: Path, reader: Page) -> None:
    reader.goto((site / "search.html").as_uri() + "?q=kl_k3")
    expect(reader.locator("#search-results a", has_text="Metrics").first).to_be_visible()


@pytest.mark.parametrize("name", ["docs/index", "docs/metrics", "docs/site/api"])
def test_a_narrow_page_does_not_scroll_sideways(site: Path, reader: Page, name: str) -> None:
    reader.set_viewport_size({"width": 390, "height": 800})
    reader.goto((site / f"{name}.html").as_uri())
    assert reader.evaluate("document.scrollingElement.scrollWidth") <= 390
