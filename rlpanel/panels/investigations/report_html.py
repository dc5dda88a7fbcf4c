"""Reports as one HTML file that needs no server and no network: passages, claims, marks and evidence.

Passages are sanitized; all other texts are escaped. The content policy of the file forbids scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from rlpanel.board_url import USUAL_ADDRESS
from rlpanel.investigations.claim_marks import EvaluationProgress, MarkedEntry
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.investigations.report_payload import counts_text, report_groups
from rlpanel.panels.language.labels import current_language, tr
from rlpanel.panels.ui.assets import read_assets


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
