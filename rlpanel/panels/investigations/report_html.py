"""Reports as plain texts for the browser, and as one HTML file that needs no server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from rlpanel.board_url import USUAL_ADDRESS
from rlpanel.investigations.claim_marks import MARKS, EvaluationProgress, MarkedEntry, about_text
from rlpanel.number_text import utc_text
from rlpanel.panels.conversation.safe_markdown import markdown_html
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.language.labels import current_language, marked, tr
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.display_text import escape_invisible

# -- report payload ------------------------------------------------------------------------------------
# Evaluated reports as plain texts for the browser; passages are sanitized HTML.


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
        groups.setdefault(each.entry.report, []).append(_payload_entry(each, time.monotonic() < end))
    return [{"name": escape_invisible(name), "entries": listed} for name, listed in groups.items()]


def _payload_entry(each: MarkedEntry, formats: bool) -> dict[str, Any]:
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


# -- report html ---------------------------------------------------------------------------------------
# Reports as one HTML file that needs no server and no network: passages, claims, marks and evidence.
#
# Passages are sanitized; all other texts are escaped. The content policy of the file forbids scripts.


def report_html(
    run: str,
    found: EvaluationProgress,
    problems: Sequence[str],
    evaluated: str,
    board: str = USUAL_ADDRESS,
) -> str:
    """Return the page.

    Parameters
    ----------
    run : str
        Name of the run.
    found : EvaluationProgress
        The evaluated entries.
    problems : sequence of str
        What of the file was not read.
    evaluated : str
        Time of the evaluation.
    board : str
        Address of the board that links lead to.
    """
    links = {each.entry.id: each for each in found.entries}
    groups = Markup("").join(
        Markup("<section><h2>{}</h2>{}</section>").format(
            group["name"],
            Markup("").join(_entry(each, links[each["id"]], board) for each in group["entries"]),
        )
        for group in report_groups(found.entries)
    )
    notes = Markup("").join(Markup("<li>{}</li>").format(problem) for problem in problems)
    return str(
        Markup(
            '<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            "<title>{title}</title><style>{style}</style></head><body><main>"
            '<h1>{title}</h1><p class="facts">{counts} · {evaluated}</p>{notes}{groups}'
            "</main></body></html>\n"
        ).format(
            language=current_language(),
            title=well_formed(tr("Reports about {run}", run=run)),
            style=Markup(read_assets("panels/investigations/report_page.css")),  # of the package
            counts=counts_text(found),
            evaluated=tr("evaluated {time}", time=evaluated),
            notes=Markup('<ul class="notes">{}</ul>').format(notes) if notes else "",
            groups=groups,
        )
    )


def _entry(shown: dict[str, Any], each: MarkedEntry, board: str) -> Markup:
    text = Markup('<div class="text">{}</div>').format(Markup(shown["html"]))  # sanitized by safe_markdown.py
    if not each.mark:
        return text
    evidence = Markup("").join(
        Markup("<p>{}</p>").format(part) if kind == "note" else Markup("<pre>{}</pre>").format(part)
        for kind, part in shown["evidence"]
    )
    values = Markup("<p>{}: <b>{}</b></p>").format(tr("claimed"), shown["expected"])
    if each.mark == "changed" or (each.mark == "holds" and each.entry.kind == "number"):
        values += Markup("<p>{}: <b>{}</b></p>").format(tr("now"), shown["found"])
    if shown["reason"]:
        values += Markup('<p class="reason">{}</p>').format(shown["reason"])
    if each.mark == "changed" and each.entry.claim.get("excerpt"):
        values += Markup("<p>{}</p><pre>{}</pre>").format(
            tr("rows as claimed"), well_formed(str(each.entry.claim["excerpt"]))
        )
    if each.entry.kind == "quotation":
        values += Markup("<blockquote>{}</blockquote>").format(well_formed(str(each.entry.claim["text"])))
    return Markup(
        '<article class="{mark}"><header><span class="mark">{label}</span> <b>{kind}</b> '
        '<code>{about}</code></header>{text}{values}{evidence}<footer><a href="{link}">{open}</a> · '
        "{written}</footer></article>"
    ).format(
        mark=each.mark.replace(" ", "-"),
        label=shown["label"],
        kind=shown["kind"],
        about=shown["about"],
        text=text if shown["html"] else "",
        values=values,
        evidence=evidence,
        link=f"{board.rstrip('/')}/{each.link}",
        open=tr("Open on the board"),
        written=shown["written"],
    )
