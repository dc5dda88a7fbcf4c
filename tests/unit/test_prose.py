"""The prose of docstrings, comments and pages is plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import generate
from rlpanel import __file__ as _package

ROOMS = ("sources", "metrics", "findings", "recording", "analysis")
#: Pages whose text is generated from the docstrings of other rooms, or that are written with those.
OTHER_PAGES = frozenset({"cli.md", "sql.md", "settings.md", "board.md", "tutorial.zh.md"})
#: Write "is not a …", and "says", "shows" or "reports". "There is no …" is plain.
RIDDLES = re.compile(
    r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more|better|larger|smaller)\b)|\b(?:tells|told)\b",
    re.IGNORECASE,
)


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield each docstring and comment of a module on one line, with its line number."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def riddles(text: str) -> list[str]:
    """Return what should be said plainly, without names of code."""
    plain = re.sub(r"```.*?```|``[^`]*``|`[^`]*`", "", text, flags=re.DOTALL)
    return RIDDLES.findall(" ".join(plain.split()))


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_are_plain(room: str) -> None:
    found = {
        f"{path.relative_to(folder.parent)}:{line}": words
        for folder in [Path(_package).parent / room]
        for path in sorted(folder.rglob("*.py"))
        for line, text in prose_of(path.read_text("utf-8"))
        if (words := riddles(text))
    }
    assert found == {}


def test_pages_are_plain() -> None:
    found = {
        path.name: words
        for path in sorted(generate.FOLDER.rglob("*.md"))
        if "_site" not in path.parts
        and path.name not in OTHER_PAGES
        and (words := riddles(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text", ["NaN is no id.", "They are no\nsamples.", "The mask tells who.", "It is told."]
)
def test_a_riddle_is_found(text: str) -> None:
    source = f'"""A module."""\n\n\ndef name():\n    """{text}"""\n'
    assert [line for line, each in prose_of(source) if riddles(each)] == [5]
    assert [line for line, each in prose_of(f"x = 1  # {' '.join(text.split())}\n") if riddles(each)] == [1]


@pytest.mark.parametrize("text", ["There is no file.", "It is no longer read.", "What ``told_by`` names."])
def test_plain_words_are_not(text: str) -> None:
    assert riddles(text) == []
