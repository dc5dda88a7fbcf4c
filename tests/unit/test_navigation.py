"""The site's navigation names every page of the documentation, as the index does."""

from __future__ import annotations

from docs import generate
from docs.navigation import SECTIONS, SITE_ONLY, is_root_page

NAMED = [name for names in SECTIONS.values() for name in names]


def test_the_navigation_names_each_page_once() -> None:
    pages = {path.stem for path in generate.FOLDER.glob("*.md")} - {"index"}
    named = [name for name in NAMED if not is_root_page(name) and "/" not in name and name not in SITE_ONLY]
    assert sorted(named) == sorted(pages)


def test_the_index_links_each_page() -> None:
    index = (generate.FOLDER / "index.md").read_text("utf-8")
    pages = [path.name for path in generate.FOLDER.glob("*.md") if path.stem != "index"]
    assert [page for page in pages if f"]({page})" not in index] == []
