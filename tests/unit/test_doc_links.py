"""Every relative link of the README and the pages leads to a file and, if it has one, to a heading."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from docs.generate import FOLDER

ROOT = FOLDER.parent
#: Pages of the repository, without the copies that `make docs` writes to `docs/_site`.
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted(FOLDER.rglob("*.md")) if page.relative_to(FOLDER).parts[0] != "_site"),
]
#: Most lines of the README, so that it stays one screen.
README_LINES = 90


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`(?!\])", "", without_code(page.read_text("utf-8")))
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_readme_is_one_screen(readme: str) -> None:
    assert len((ROOT / readme).read_text("utf-8").splitlines()) <= README_LINES


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"\]\(([\w.-]+\.md)\)", (FOLDER / "index.md").read_text("utf-8"))
    # Below its title, a page leads to the same page in Chinese.
    pages = {page.name for page in FOLDER.glob("*.md") if not page.name.endswith(".zh.md")}
    assert pages - {"index.md"} == {name for name in listed if name != "index.zh.md"}
