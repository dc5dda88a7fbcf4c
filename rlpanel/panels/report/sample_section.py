"""HTML of one sample in a report: origin, texts, numbers, and an element for the token view."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.prompt_text import answer_html, prompt_html
from rlpanel.panels.texts.text_style import text_style
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.samples_export import to_json_types
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.prompt_parts import TextStyle
from rlpanel.texts.shorten import shorten

#: Maximum number of characters of the line's extra fields.
MAX_EXTRA = 20_000
_TEXTS = {
    "response": ("Response", "policy"),
    "ref_response": ("Reference response", "reference"),
    "ground_truth": ("Ground truth", "good"),
}


def article_html(
    context: Context, sample: Sample, at: int, tests: Sequence[TextPredicate] = (), players: str = ""
) -> str:
    """Return the HTML of a sample.

    Parameters
    ----------
    at : int
        Its position in the report.
    tests : sequence of TextPredicate
        Conditions on texts; what they find is marked.
    players : str
        HTML of the sample's audio and video.
    """
    style = text_style(context)
    prompt = ""
    if sample.prompt is not None:
        text = prompt_html(sample.prompt, style, PlaceFinder(tests).places("prompt", sample.prompt))
        head = '<h4 class="caption">Prompt</h4>'
        prompt = f'<section class="prompt">{head}<div class="parts">{text}</div></section>'
    return (
        f'<article id="sample-{at}">{_head(context, sample, at)}{prompt}{players}'
        f'<div class="tokens" data-sample="{at}"></div>'
        f'<div class="pair">{"".join(_answers(sample, style, tests))}</div>'
        f"{_numbers(sample)}{_extra(sample)}</article>"
    )


def _head(context: Context, sample: Sample, at: int) -> str:
    origin = [f"step {sample.step}", f"rank {sample.rank}" if sample.rank >= 0 else "", sample.place]
    origin += [f"group {sample.group}"] if sample.group else []
    annotation = context.notes.of(sample.uid) if context.notes is not None else None
    marks = [text for text in (annotation.tag, annotation.note) if text] if annotation is not None else []
    notes = "".join(f'<p class="note kl">{safe_text(note)}</p>' for note in sample.notes)
    tagged = f'<p class="note">{safe_text(" · ".join(marks))}</p>' if marks else ""
    origin_text = safe_text(" · ".join(part for part in origin if part))
    return f'<h3>Sample {at + 1}<span class="note">{origin_text}</span></h3>{tagged}{notes}'


def _answers(sample: Sample, style: TextStyle, tests: Sequence[TextPredicate]) -> Iterator[str]:
    """Yield a section for each logged answer: response, reference response, ground truth."""
    scores = {
        "response": (sample.reward, sample.valid_reward),
        "ref_response": (sample.ref_reward, sample.ref_valid_reward),
    }
    finder = PlaceFinder(tests)
    for name, (title, color) in _TEXTS.items():
        text = getattr(sample, name)
        if text is None:
            continue
        labelled = zip(("reward", "valid"), scores.get(name, ()), strict=False)
        score_html = "".join(
            f"<em>{label} <b>{number(value)}</b></em>" for label, value in labelled if not math.isnan(value)
        )
        yield (
            f'<section data-text="{name}"><h4><span class="{color}">{title}</span>{score_html}</h4>'
            f"<p>{answer_html(text, style, finder.places(name, text))}</p></section>"
        )


def _numbers(sample: Sample) -> str:
    """Return a collapsed list of the sample's numbers, including metrics."""
    columns = {name: value for name, value in sample.columns.items() if not math.isnan(value)}
    pairs = "".join(
        f'<div title="{safe_text(column_info.describe(name).tip)}"><dt>{safe_text(name)}</dt>'
        f'<dd data-column="{safe_text(name)}">{value:.6g}</dd></div>'
        for name, value in columns.items()
    )
    return f"<details><summary>{len(columns)} numbers</summary><dl>{pairs}</dl></details>"


def _extra(sample: Sample) -> str:
    """Return the line's extra fields as a collapsed block of plain text."""
    if not sample.extra:
        return ""
    try:
        text = json.dumps(to_json_types(sample.extra), ensure_ascii=False, indent=1)
    except RecursionError:
        text = "nested too deeply to be shown"
    text = shorten(text, MAX_EXTRA, f"… {len(text) - MAX_EXTRA:,} more characters")
    summary = f"<summary>{len(sample.extra)} extra fields</summary>"
    return f"<details>{summary}<pre>{safe_text(text)}</pre></details>"
