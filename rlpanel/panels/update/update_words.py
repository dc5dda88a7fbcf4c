"""The words of the page *Update*: its sentence, its notes, and the rows of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpanel.number_text import number
from rlpanel.panels.explain.link_rows import link_row
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.update.compare_losses import LossOutcome, approximations, missing_fields
from rlpanel.update.update_study import UpdateStudy

#: Dimensions that are no label of the run.
DIMENSIONS = (
    marked("turn"),
    marked("position"),
    marked("sample"),
    marked("group"),
    marked("length"),
    marked("reward part"),
    marked("token"),
    marked("token class"),
    marked("phrase"),
)


def dimension_title(dimension: str) -> str:
    """Return the title of a dimension; that of a label is its name."""
    return tr(dimension) if dimension in DIMENSIONS else dimension


def head_html(study: UpdateStudy) -> str:
    """Return the sentence about an update, and what its numbers rest on, as HTML."""
    batch, own, found = study.batch, study.own, study.anatomy
    if batch is None or own is None:
        return ""
    if not len(batch):
        return _paragraph(tr("The samples of this step have no tokens and no text: log response."))
    parts = []
    if found is not None:
        totals = found.totals
        weighted = int((totals.weight > 0).sum())
        half, samples = len(found.half), len(batch)
        title = tr("{half:,} of {samples:,} samples carry half of the update", half=half, samples=samples)
        parts.append(f"<h3>{safe_text(title)}</h3>")
        parts.append(
            _paragraph(
                tr(
                    "Effective number of samples {effective}; {idle:,} samples have no weight.",
                    effective=number(totals.effective),
                    idle=len(batch) - weighted,
                )
            )
        )
        shares = [
            (tr("in groups of equal rewards: {share:.1%} of the samples", share=found.flat), found.flat),
            (tr("outside of the loss mask: {share:.1%} of the tokens", share=found.masked), found.masked),
        ]
        if not batch.reading.has_mask:
            del shares[1]
        if batch.has_ratio:
            shares.append(
                (tr("clipped: {share:.1%} of the tokens in the loss", share=found.clipped), found.clipped)
            )
        text = tr("cancelled between samples of a group: {share:.0%} of the weight", share=found.cancelled)
        shares.append((text, found.cancelled))
        parts.append(_paragraph(" · ".join(text for text, share in shares if share == share)))
    elif study.needs:
        parts.append(_paragraph(tr("The run's own loss needs {fields}: log it.", fields=study.needs)))
    else:
        parts.append(_paragraph(own.found))
    loss = own.algorithm
    if loss is not None:
        parts.append(_note(own.found))
        notes = [tr("Assumed: {text}.", text=text) for text in own.assumed]
        notes += approximations(batch, loss)
        missing = missing_fields(batch)
        if missing:
            parts.append(_note(tr("Not logged: {fields}.", fields=", ".join(missing))))
        summary = safe_text(tr("Formula of {loss}", loss=loss.title))
        if notes:
            many = tr(", and {count} assumptions", count=len(notes))
            summary += safe_text(many if len(notes) > 1 else tr(", and 1 assumption"))
        text = safe_text(f"{loss.formula}. {loss.source}.")
        listed = "".join(f"<li>{safe_text(note)}</li>" for note in notes)
        listed = f"<ul>{listed}</ul>" if listed else ""
        parts.append(f"<details><summary>{summary}</summary>{text}{listed}</details>")
    reading = batch.reading
    counts = [
        (reading.unreadable, tr("{count:,} samples changed while they were read.", count=reading.unreadable)),
        (
            reading.without_tokens,
            tr("{count:,} samples have no tokens and no text.", count=reading.without_tokens),
        ),
        (reading.unequal, tr("{count:,} arrays are not as long as the tokens.", count=reading.unequal)),
    ]
    said = " ".join(text for count, text in counts if count)
    return "".join([*parts, _note(said) if said else ""])


def _paragraph(text: str) -> str:
    return f"<p>{safe_text(text)}</p>"


def _note(text: str) -> str:
    return f'<p class="note">{safe_text(text)}</p>'


def outcome_table(
    outcomes: Sequence[LossOutcome], samples: int, mass: str, *, has_ratio: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the titles and rows of the losses that can be computed; a number that no loss has is left out.

    Parameters
    ----------
    outcomes : sequence of LossOutcome
    samples : int
        Number of samples of the batch.
    mass : str
        Category whose share of the weight is shown.
    has_ratio : bool
        Whether ratios are known; without them, nothing is known to be clipped.
    """
    computed = [each for each in outcomes if not each.needs]
    columns = [
        (tr("clipped"), [_share(each.clipped) if has_ratio else "" for each in computed]),
        (tr("half"), [_count(each.half) for each in computed]),
        (tr("like own"), ["" if each.correlation is None else number(each.correlation) for each in computed]),
        (tr("other sign"), [_count(each.changed) for each in computed]),
        (tr("± weight"), [_gain(each) for each in computed]),
        (mass, [_share((each.mass or {}).get(mass)) for each in computed]),
    ]
    shown = [(title, texts) for title, texts in columns if title and any(texts)]
    rows = []
    for at, each in enumerate(computed):
        loss, effective = each.algorithm, each.effective or 0.0
        rows.append(
            link_row(
                "" if each.is_own else loss.name,
                loss.title,
                number(effective),
                effective / (samples or 1),
                [texts[at] or "–" for _, texts in shown],
                kind=tr("this run") if each.is_own else "",
                tip="\n".join([loss.formula, loss.source, *each.approximated]),
            )
        )
    return ["", tr("of {samples:,}", samples=samples), tr("loss"), *(title for title, _ in shown)], rows


def needs_text(outcomes: Sequence[LossOutcome]) -> str:
    """Return which losses cannot be computed, and the fields that each needs."""
    titles: dict[str, list[str]] = {}
    for each in outcomes:
        if each.needs:
            titles.setdefault(each.needs, []).append(each.algorithm.title)
    parts = [f"{fields} ({', '.join(names)})" for fields, names in titles.items()]
    return tr("Not logged, but needed: {fields}.", fields="; ".join(parts)) if parts else ""


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _gain(outcome: LossOutcome) -> str:
    if outcome.gained is None or outcome.lost is None:
        return ""
    return f"+{outcome.gained:,} −{outcome.lost:,}" if outcome.gained or outcome.lost else "0"
