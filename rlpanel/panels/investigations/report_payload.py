"""Evaluated reports as plain texts for the browser; passages are sanitized HTML."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlpanel.investigations.claim_marks import MARKS, EvaluationProgress, MarkedEntry, about_text
from rlpanel.number_text import utc_text
from rlpanel.panels.conversation.safe_markdown import markdown_html
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.display_text import escape_invisible

#: Marks and kinds on the screen.
MARK_LABELS = {
    "holds": marked("holds"),
    "changed": marked("changed"),
    "broken": marked("broken"),
    "not evaluated": marked("not evaluated"),
}
KIND_LABELS = {
    "query": marked("Query"),
    "number": marked("Number"),
    "finding": marked("Finding"),
    "quotation": marked("Quotation"),
}
#: Seconds in which the Markdown of all passages is formatted; later ones are shown as plain text.
MARKDOWN_SECONDS = 10.0


def report_groups(entries: Sequence[MarkedEntry]) -> list[dict[str, Any]]:
    """Return the reports by name with their entries, in the order of the file."""
    groups: dict[str, list[dict[str, Any]]] = {}
    end = time.monotonic() + MARKDOWN_SECONDS
    for each in entries:
        groups.setdefault(each.entry.report, []).append(_entry(each, time.monotonic() < end))
    return [{"name": escape_invisible(name), "entries": listed} for name, listed in groups.items()]


def _entry(each: MarkedEntry, formats: bool) -> dict[str, Any]:
    entry = each.entry
    text = well_formed(entry.text)
    shown = markdown_html(text) if formats else f'<div class="plain">{safe_text(text)}</div>'
    return {
        "id": entry.id,
        "kind": tr(KIND_LABELS[entry.kind]) if entry.is_claim else "",
        "mark": each.mark,
        "label": tr(MARK_LABELS[each.mark]) if each.mark else "",
        "html": shown if entry.text else "",
        "about": escape_invisible(about_text(entry)),
        "expected": each.expected,
        "found": each.found,
        "reason": escape_invisible(each.reason),
        "evidence": [[kind, well_formed(text)] for kind, text in each.evidence],
        "written": escape_invisible(
            " · ".join(filter(None, (entry.author, utc_text(entry.time) if entry.time else "")))
        ),
    }


def counts_text(found: EvaluationProgress) -> str:
    """Return how many claims have which mark."""
    parts = {
        "holds": tr("{count:,} hold", count=found.counts.get("holds", 0)),
        "changed": tr("{count:,} changed", count=found.counts.get("changed", 0)),
        "broken": tr("{count:,} broken", count=found.counts.get("broken", 0)),
        "not evaluated": tr("{count:,} not evaluated", count=found.counts.get("not evaluated", 0)),
    }
    shown = [parts[mark] for mark in MARKS if found.counts.get(mark)]
    return ", ".join(shown) if shown else tr("No claims yet")
