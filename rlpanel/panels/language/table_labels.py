"""Labels of the buttons below a table that has pages."""

from __future__ import annotations

from typing import Any

from rlpanel.panels.language.labels import ENGLISH, current_language, tr


def pager_labels() -> dict[str, Any]:
    """Return the part of a table's configuration that translates its pager; empty in English."""
    language = current_language().lower()
    if language == ENGLISH:
        return {}
    buttons = {"first": tr("First"), "prev": tr("Prev"), "next": tr("Next"), "last": tr("Last")}
    titles = {
        "first_title": tr("First page"),
        "prev_title": tr("Previous page"),
        "next_title": tr("Next page"),
        "last_title": tr("Last page"),
        "page_title": tr("Show page"),
    }
    return {"locale": language, "langs": {language: {"pagination": buttons | titles}}}
