"""Sentences of findings in the language of the session: a rule's template and its values.

Rules write English sentences, which also come from files, from other processes and from saved summaries. So a
template is recognised in the finished sentence, its values are read from it, and `tr` fills them into the
translated template. A value may have a template of its own, such as a place or some steps. A sentence of no
known template stays English as a whole.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from string import Formatter

from rlpanel.panels.language.finding_phrases import EVIDENCE, LINT, SENTENCES
from rlpanel.panels.language.labels import ENGLISH, current_language, marked, tr
from rlpanel.panels.language.phrase_parts import PARTS

#: Values that may be any text; they are shown as they are.
_TEXTS = frozenset({"name", "text", "tool", "label", "reason", "words", "listed", "title"})
#: Values that are a series of parts, and the kind of each part.
_SERIES = {"rows": "row", "differences": "difference"}
#: Parts of a sentence that may be missing.
_OPTIONAL = frozenset(
    {
        *("place", "compared", "meanwhile", "alike", "doubling", "rose", "copies", "mixed", "within"),
        *("readings", "deviations"),
    }
)
_ALL = {**PARTS, **SENTENCES, **EVIDENCE, **LINT}
_TINY = marked("less than 0.1%")
_COMMA, _BREAK = marked(", "), marked("; ")
_VALUE = rf"(?:{re.escape(_TINY)}|[+\-−]?(?:\d[\d,]*(?:\.\d+)?(?:e[\-−]?\d+)?|∞)%?|–|nan|inf)"
_LIST = r"[\d,–]+(?:(?:, | and )[\d,–]+)*"
#: What is doubtful about a step, which stands in brackets at the end of a sentence.
_DOUBT = re.compile(r"(.+) \((steps? \d.+)\)\.", re.DOTALL)
#: Longer texts are not translated: their search would take long.
_MAX_CHARS = 2000


def tr_finding(text: str) -> str:
    """Return a sentence, evidence or advice of a finding in the current language."""
    language = current_language()
    return text if language == ENGLISH or len(text) > _MAX_CHARS else _translated(text, language)


def tr_lint(text: str) -> str:
    """Return what a lint rule or its tokenizer says in the current language."""
    language = current_language()
    return text if language == ENGLISH or not text or len(text) > _MAX_CHARS else _lint_text(text, language)


@lru_cache(maxsize=4096)
def _lint_text(text: str, language: str) -> str:
    """Return the translation of a whole text; the language is that of `tr`, and part of the key."""
    known = tr(text)
    return known if known != text else _filled("lint", text) or text


@lru_cache(maxsize=4096)
def _translated(text: str, language: str) -> str:
    """Return the translation of a whole text; the language is that of `tr`, and part of the key."""
    known = tr(text)
    if known != text:
        return known
    for kind in ("sentence", "evidence", "advice"):
        if (found := _filled(kind, text)) is not None:
            return found
    doubt = _DOUBT.fullmatch(text)
    if doubt is not None and (found := _filled("sentence", f"{doubt[1]}.")) is not None:
        return tr("{sentence} ({doubt}).", sentence=found.rstrip("。."), doubt=doubt[2])
    return text


def _filled(kind: str, text: str) -> str | None:
    """Return a text of a kind in the current language; None if no template fits."""
    for template in _ALL[kind]:
        if _longest_literal(template) in text and (match := _pattern(template).fullmatch(text)) is not None:
            values = {name: _shown(name, value or "") for name, value in match.groupdict().items()}
            return tr(template, **values) if values else tr(template)
    return None


def _shown(name: str, value: str) -> str:
    """Return a value of a template in the current language."""
    kind = _kind(name)
    if kind in _SERIES:
        parts = value.split(_BREAK)
        return tr(_BREAK).join(_filled(_SERIES[kind], part) or part for part in parts)
    if kind in PARTS:
        return (_filled(kind, value) or value) if value else ""
    if kind == "list":
        return re.sub(", | and ", tr(_COMMA), value)
    return tr(value) if kind == "title" or value == _TINY else value


def _kind(name: str) -> str:
    """Return the kind of a value: its name, without a word that tells two of one kind apart."""
    return name.removeprefix("earlier_")


@cache
def _longest_literal(template: str) -> str:
    """Return the longest part of a template that is no value: a text without it does not fit."""
    return max((literal for literal, *_ in Formatter().parse(template)), key=len)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_expression(template, named=True), re.DOTALL)


def _expression(template: str, *, named: bool) -> str:
    """Return the regular expression of a template, whose groups are its values if they are named."""
    found = ""
    for literal, name, _, _ in Formatter().parse(template):
        found += re.escape(literal)
        if name:
            found += f"(?P<{name}>{_of_value(name)})" if named else f"(?:{_of_value(name)})"
            found += "?" * (name in _OPTIONAL)
    return found


def _of_value(name: str) -> str:
    kind = _kind(name)
    if kind in PARTS:
        return "|".join(_expression(text, named=False) for text in PARTS[kind])
    if kind in _TEXTS or kind in _SERIES:
        return ".+?"
    return _LIST if kind == "list" else _VALUE
