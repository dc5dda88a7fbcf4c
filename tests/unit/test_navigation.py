"""The site's navigation names every page of the documentation."""

from __future__ import annotations

import re

from docs import generate
from docs.navigation import SECTIONS, SITE_ONLY, is_root_page

NAMED = [name for names in SECTIONS.values() for name in names]


def test_the_navigation_names_each_page_once() -> None:
    pages = {path.stem for path in generate.FOLDER.glob("*.md")} - {"index"}
    named = [name for name in NAMED if not is_root_page(name) and "/" not in name and name not in SITE_ONLY]
    assert sorted(named) == sorted(pages)


def test_every_decision_is_named_by_the_site_and_by_the_page_of_the_architecture() -> None:
    pages = {path.stem for path in (generate.FOLDER / "decisions").glob("*.md")}
    assert pages
    assert {name.rpartition("/")[2] for name in NAMED if name.startswith("docs/decisions/")} == pages
    architecture = (generate.FOLDER / "architecture.md").read_text("utf-8")
    assert set(re.findall(r"\(decisions/([\w-]+)\.md\)", architecture)) == pages


def test_every_report_for_another_project_is_named_by_the_site() -> None:
    pages = {path.stem for path in (generate.FOLDER / "upstream").glob("*.md")}
    assert pages
    assert {name.rpartition("/")[2] for name in NAMED if name.startswith("docs/upstream/")} == pages
