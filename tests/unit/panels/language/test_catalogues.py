"""The catalogues are in step with the code, complete, and compiled."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo

import rlpanel
from docs import messages
from docs.messages import po_path, read
from rlpanel.panels.language.labels import BROWSER, CATALOGUES, SERVER

PACKAGE = Path(rlpanel.__file__).parent
EACH = [(language, domain) for language in CATALOGUES for domain in (SERVER, BROWSER)]
CALL = re.compile(r"\b(tr|tr_html|trn|marked)\(")
PLACEHOLDER, TAG = re.compile(r"\{[^{}]*\}"), re.compile(r"</?[a-z][^<>]*>")


#: Babel parses the whole package.
extracted = cache(messages.extracted)


def pairs(language: str, domain: str) -> Iterator[tuple[str, str]]:
    """Yield each text with its translation; of a plural, that for many."""
    for message in read(language, domain):
        if message.id:
            source = message.id if isinstance(message.id, str) else message.id[-1]
            yield source, message.string if isinstance(message.string, str) else message.string[-1]


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_the_catalogue_has_the_labels_of_the_code(language: str, domain: str) -> None:
    code = {message.id for message in extracted(domain) if message.id}
    carried = {message.id for message in read(language, domain) if message.id}
    assert carried == code, "run `make messages`"
    assert len(code) > 100


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_every_label_is_translated(language: str, domain: str) -> None:
    assert [source for source, shown in pairs(language, domain) if not shown.strip()] == []


@pytest.mark.parametrize(("language", "domain"), EACH)
@pytest.mark.parametrize("pattern", [PLACEHOLDER, TAG])
def test_placeholders_and_tags_agree(language: str, domain: str, pattern: re.Pattern[str]) -> None:
    different = [
        source
        for source, shown in pairs(language, domain)
        if Counter(pattern.findall(source)) != Counter(pattern.findall(shown))
    ]
    assert different == []


@pytest.mark.parametrize("domain", [SERVER, BROWSER])
def test_placeholders_are_not_numbered(domain: str) -> None:
    """A translator cannot see what ``{names_2}`` stands for."""
    messages = [message.id for message in extracted(domain) if message.id]
    texts = [text for each in messages for text in ([each] if isinstance(each, str) else each)]
    assert [text for text in texts if re.search(r"\{\w*\d\s*[}:!]", text)] == []


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_the_compiled_catalogue_is_in_step(language: str, domain: str) -> None:
    """Without the header, which names the version of Babel that wrote it."""
    with po_path(language, domain).with_suffix(".mo").open("rb") as file:
        compiled = texts(read_mo(file))
    assert compiled == texts(read(language, domain)), "run `make messages`"


def texts(catalog: Catalog) -> set[tuple[str, ...]]:
    """Return all forms of each message and of its translation."""
    return {(*_forms(message.id), *_forms(message.string)) for message in catalog if message.id}


def _forms(text: str | Iterable[str]) -> Iterable[str]:
    return [text] if isinstance(text, str) else text


def test_no_label_is_inside_an_f_string() -> None:
    """Babel does not find labels there before Python 3.12."""
    found = [
        f"{path}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if CALL.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.JoinedStr)
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") in {"tr", "tr_html", "trn", "marked"}
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]
    assert found == []
