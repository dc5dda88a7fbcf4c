"""The Chinese pages have the same headings, code, links, pictures and numbers as the English ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.generate import FOLDER

ROOT = FOLDER.parent
CHINESE = [*ROOT.glob("*.zh.md"), *FOLDER.glob("*.zh.md")]
#: Pages with the beginning of long ones, whose generated tables stay English; they lead there.
SHORT = [FOLDER / "cli.zh.md", FOLDER / "log.zh.md"]
WHOLE = [path for path in CHINESE if path not in SHORT]
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[(?:[^][]|`[^`]*`)*\]\(([^)\s]+)\)")
#: The line below the title that leads to the other language.
LANGUAGES = re.compile(r"\A# .+\n\n(.+)\n")


def english(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".zh.md") + ".md")


def body(path: Path) -> str:
    """Return a page without its line of languages."""
    text = path.read_text("utf-8")
    return text.replace(LANGUAGES.match(text)[1], "", 1)  # type: ignore[index]


def sections(path: Path) -> list[tuple[str, str]]:
    """Return the level of each heading and the prose below it, without code blocks."""
    parts = re.split(r"^(#+) ", CODE.sub("", body(path)), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def links(text: str) -> Counter[tuple[str, str]]:
    """Return the targets of pictures and links; those of Chinese pages by the English name."""
    return Counter((mark, target.replace(".zh.md", ".md")) for mark, target in LINK.findall(text))


def numbers(text: str) -> Counter[str]:
    """Return the numbers of a text, without those in names of files and in code."""
    return Counter(re.findall(r"\d+(?:\.\d+)*", without_names(text)))


def without_names(text: str) -> str:
    return re.sub(r"`[^`\n]+`|\]\([^)\s]+\)", "", text)


def code_in_lines(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", text))


def rows_and_items(text: str) -> list[str]:
    """Return the first characters of rows and list items, and the marks of generated parts."""
    return re.findall(r"^(?:\||- |<!-- .* -->)", text, re.MULTILINE)


def test_there_are_chinese_pages() -> None:
    assert {path.name for path in CHINESE} >= {"README.zh.md", "tutorial.zh.md"}


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.name)
def test_both_pages_lead_to_each_other_below_their_titles(path: Path) -> None:
    first = {page: LANGUAGES.match(page.read_text("utf-8")) for page in (path, english(path))}
    assert [found and found[1] for found in first.values()] == [
        f"[English]({english(path).name}) | 中文",
        f"English | [中文]({path.name})",
    ]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_headings_have_the_same_levels(path: Path) -> None:
    assert [level for level, _ in sections(path)] == [level for level, _ in sections(english(path))]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_headings_have_the_same_numbers(path: Path) -> None:
    titles = [[text.partition("\n")[0] for _, text in sections(page)] for page in (path, english(path))]
    assert [numbers(title) for title in titles[0]] == [numbers(title) for title in titles[1]]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_code_blocks_are_the_same(path: Path) -> None:
    assert CODE.findall(body(path)) == CODE.findall(body(english(path)))


@pytest.mark.parametrize("what", [links, numbers, code_in_lines, rows_and_items])
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_each_section_has_the_same(path: Path, what: Callable[[str], Any]) -> None:
    assert [what(text) for _, text in sections(path)] == [what(text) for _, text in sections(english(path))]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_a_link_leads_to_the_chinese_page_where_there_is_one(path: Path) -> None:
    targets = [path.parent / target.partition("#")[0] for _, target in LINK.findall(body(path))]
    translated = {page.with_name(page.name.replace(".zh.md", ".md")) for page in WHOLE}
    assert [page.name for page in targets if page.resolve() in translated] == []


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.name)
def test_a_short_page_leads_to_the_whole_one_and_has_its_words_only(path: Path) -> None:
    assert ("", english(path).name) in links(body(path).replace(".zh.md", ".zh"))
    known = english(path).read_text("utf-8")
    words = [name.split()[0] for name in code_in_lines(body(path)) if name[0].isalnum()]
    assert [word for word in words if word not in known] == []
