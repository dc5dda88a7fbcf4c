"""Labels in the language of the session, and the choice of that language for a page."""

from __future__ import annotations

import gettext
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from bokeh.document import Document


# -- labels --------------------------------------------------------------------------------------------
# Labels in the language of the session, from gettext catalogues. The English text is the key.
#
# The language belongs to the document that is drawn. Background threads have no document: they get the
# language of the session that started them by `using`.


ENGLISH = "en"
CHINESE = "zh-CN"
#: Language as browsers name it → the name of its catalogue.
CATALOGUES = {CHINESE: "zh_CN"}
#: Languages of the board, as the switch lists them.
LANGUAGES = {ENGLISH: "English", CHINESE: "中文"}
#: Catalogues: labels that Python writes, and labels that scripts write in the browser.
SERVER, BROWSER = "server", "browser"
FOLDER = Path(__file__).parent

_VARIABLE = "rlpanel_language"
_forced: ContextVar[str | None] = ContextVar("rlpanel_language", default=None)


def tr(text: str, /, **values: object) -> str:
    """Return a label in the current language; values replace its placeholders, as `str.format` does.

    A text without translation stays as it is.
    """
    language = current_language()
    shown = text if language == ENGLISH or not text else _catalogue(language, SERVER).gettext(text)
    return shown.format(**values) if values else shown


def said(text: str) -> str:
    """Return a sentence of a room without a language (`rlpanel.texts.said.Said`) in the current language."""
    template = getattr(text, "template", None)
    return text if template is None else tr(template, **getattr(text, "values", {}))


def tr_html(text: str, /, **values: object) -> Markup:
    """Return a label that holds HTML; each value is escaped unless it is `Markup`.

    What is added to the result is escaped, too, unless it is `Markup`.
    """
    return Markup(tr(text)).format(**values)


def trn(one: str, many: str, count: int, /, **values: object) -> str:
    """Return the label for a count, in the current language; ``{count}`` and the values are filled in."""
    language = current_language()
    if language == ENGLISH:
        shown = one if count == 1 else many
    else:
        shown = _catalogue(language, SERVER).ngettext(one, many, count)
    return shown.format(count=count, **values)


def marked(text: str) -> str:
    """Mark a constant for the catalogue. It is translated by `tr` when it is shown."""
    return text


def current_language() -> str:
    """Return the language of the job or of the document that is drawn; English without one."""
    forced = _forced.get()
    if forced is not None:
        return forced
    panel = sys.modules.get("panel")  # a command that draws nothing does not load it
    document = panel.state.curdoc if panel is not None else None
    return ENGLISH if document is None else document_language(document)


def document_language(document: Document) -> str:
    """Return the language of a document."""
    return document.template_variables.get(_VARIABLE, ENGLISH)


def set_document_language(document: Document, language: str) -> None:
    """Set the language of a document, before its views are built."""
    document.template_variables[_VARIABLE] = language if language in LANGUAGES else ENGLISH


@contextmanager
def using(language: str) -> Iterator[None]:
    """Use a language in this context, such as that of a job on a background thread."""
    token = _forced.set(language)
    try:
        yield
    finally:
        _forced.reset(token)


@cache
def browser_labels(language: str) -> str:
    """Return the translations for scripts as JSON that may stand in a ``<script>`` element."""
    if language == ENGLISH:
        return "{}"
    found = _catalogue(language, BROWSER)._catalog  # type: ignore[attr-defined]
    labels = {text: shown for text, shown in found.items() if isinstance(text, str) and text}
    return json.dumps(labels, ensure_ascii=False).replace("<", "\\u003c")


@cache
def _catalogue(language: str, domain: str) -> gettext.NullTranslations:
    return gettext.translation(domain, FOLDER, languages=[CATALOGUES[language]], fallback=False)


# -- preference ----------------------------------------------------------------------------------------
# Chooses the language of a page: the viewer's choice, else the browser's, else English.


#: Cookie with the viewer's choice: a key of `LANGUAGES`.
LANGUAGE_COOKIE = "rlpanel-language"
#: Characters of ``Accept-Language`` that are read, so that no request takes long.
_MAX_CHARS = 400
_PART = re.compile(r"\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*", re.I)
#: Chinese that is written in traditional characters; the catalogue has simplified ones.
_TRADITIONAL = ("zh-tw", "zh-hk", "zh-mo", "zh-hant")


def preferred_language(cookie: str | None, accepted: str | None) -> str:
    """Return a key of `LANGUAGES`.

    Parameters
    ----------
    cookie : str, optional
        Value of `LANGUAGE_COOKIE`; one that names no language is ignored.
    accepted : str, optional
        Value of the header ``Accept-Language``.
    """
    if cookie in LANGUAGES:
        return str(cookie)
    parts = [_PART.fullmatch(part) for part in (accepted or "")[:_MAX_CHARS].split(",")]
    ranked = sorted(
        ((float(part[2] or 1), part[1].lower()) for part in parts if part), key=lambda pair: -pair[0]
    )
    for weight, name in ranked:
        if weight and name.split("-")[0] == "en":
            return ENGLISH
        if weight and name.split("-")[0] == "zh" and not name.startswith(_TRADITIONAL):
            return CHINESE
    return ENGLISH
