"""The site's navigation names every page of the documentation."""

from __future__ import annotations

from docs import generate
from docs.navigation import SECTIONS, SITE_ONLY, is_root_page

NAMED = [name for names in SECTIONS.values() for name in names]


def test_the_navigation_names_each_page_once() -> None:
    pages = {path.stem for path in generate.FOLDER.glob("*.md")} - {"index"}
    named = [name for name in NAMED if not is_root_page(name) and "/" not in name and name not in SITE_ONLY]
    assert sorted(named) == sorted(pages)
