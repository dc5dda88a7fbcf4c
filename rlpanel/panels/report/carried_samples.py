"""Samples contained in a report: rows of a table, and for each its HTML with texts and players."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number, size_text
from rlpanel.panels.samples.grid_cells import sample_cells
from rlpanel.panels.samples.sample_table import frame_of, title_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.sample_texts import answer_html, prompt_html, text_style
from rlpanel.panels.tokens.token_view import pack_sample
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Medium
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.sample_media import MediumTooLarge, media_bytes, where_it_is
from rlpanel.store.query.samples_export import to_json_types
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.display_text import escape_invisible
from rlpanel.texts.prompt_parts import TextStyle
from rlpanel.texts.shorten import one_line, shorten

# -- sample section ------------------------------------------------------------------------------------
# HTML of one sample in a report: origin, texts, numbers, and an element for the token view.


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
        f'<article id="sample-{at}">{_section_head(context, sample, at)}{prompt}{players}'
        f'<div class="tokens" data-sample="{at}"></div>'
        f'<div class="pair">{"".join(_answers(sample, style, tests))}</div>'
        f"{_numbers(sample)}{_extra(sample)}</article>"
    )


def _section_head(context: Context, sample: Sample, at: int) -> str:
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


# -- media players -------------------------------------------------------------------------------------
# Players of a report: small audio and video as data URLs, and a sentence for those that are not embedded.


#: Most bytes of one medium, of all media of a report, and most media of a report that are read.
MAX_EACH, MAX_TOTAL, MAX_READ = 2_000_000, 10_000_000, 50


@dataclass
class MediaBudget:
    """Bytes and files that a report may still embed; each sample takes its share in turn.

    Attributes
    ----------
    each, total, read : int
        Bytes of one medium, bytes of all, and number of media that are read.
    """

    each: int = MAX_EACH
    total: int = MAX_TOTAL
    read: int = MAX_READ


@dataclass(frozen=True)
class SamplePlayers:
    """Audio and video of one sample in a report.

    Attributes
    ----------
    html : str
        A section with players and sentences; empty if the sample has neither audio nor video.
    embedded_chars : int
        Number of characters of the embedded data in ``html``.
    left_out : int
        Number of media that are not embedded.
    """

    html: str = ""
    embedded_chars: int = 0
    left_out: int = 0


def sample_players(context: Context, sample: Sample, budget: MediaBudget) -> SamplePlayers:
    """Return the players of a sample's audio and video. What they embed is taken from the budget."""
    figures, chars, left_out = [], 0, 0
    for place, medium in _media(sample):
        name = f"{medium['kind']} · {place}"
        try:
            address, size = _address(context, sample, medium, budget)
        except MediumTooLarge as error:
            left_out += 1
            figures.append(_sentence(name, f", {size_text(error.size)}, not embedded: {error}.", medium))
        except RLPanelError as error:
            left_out += 1
            figures.append(_sentence(name, f", not embedded: {error}.", medium))
        else:
            chars += len(address)
            figures.append(_player(medium["kind"], f"{name}, {size_text(size)}", address))
    if not figures:
        return SamplePlayers()
    caption = '<h4 class="caption">Audio and video</h4>'
    return SamplePlayers(f'<section class="media">{caption}{"".join(figures)}</section>', chars, left_out)


def _media(sample: Sample) -> Iterator[tuple[str, Medium]]:
    """Yield the audio and video of the messages and beside them, each with a text of its place."""
    for nth, message in enumerate(sample.messages, 1):
        for medium in message.get("media", ()):
            yield f"message {nth}, {str(message.get('role', ''))[:40]}", medium
    for medium in sample.media:
        yield "beside the messages", medium  # type: ignore[misc]  # `Sample` names the shape in its docstring


def _address(context: Context, sample: Sample, medium: Medium, budget: MediaBudget) -> tuple[str, int]:
    """Return a data URL of a medium, and its size; the type comes from the file's content."""
    assert context.index is not None
    known = medium.get("size", 0)
    if known > budget.each:
        raise _too_large(known, budget)
    if budget.read <= 0:
        raise RLPanelError(f"a report reads at most {MAX_READ} media")
    budget.read -= 1
    most = min(budget.each, budget.total)
    try:
        content_type, data = media_bytes(context.index, context.snapshot, sample.uid, medium, most)
    except MediumTooLarge as error:
        raise _too_large(error.size, budget) from error
    budget.total -= len(data)
    return f"data:{content_type};base64,{base64.b64encode(data).decode()}", len(data)


def _too_large(size: int, budget: MediaBudget) -> MediumTooLarge:
    if size > budget.each:
        return MediumTooLarge(f"a report embeds files of at most {size_text(budget.each)}", size)
    return MediumTooLarge(f"a report embeds at most {size_text(MAX_TOTAL)} in all", size)


def _player(kind: str, name: str, address: str) -> str:
    label = safe_text(escape_invisible(name))
    element = "video" if kind == "video" else "audio"
    return (
        f"<figure><figcaption>{label}</figcaption>"
        f'<{element} controls preload="metadata" aria-label="{label}" src="{safe_text(address)}"></{element}>'
        "</figure>"
    )


def _sentence(name: str, reason: str, medium: Medium) -> str:
    text = f"{name}{reason} {where_it_is(medium)}"
    return f'<p class="note">{safe_text(escape_invisible(text))}</p>'


# -- carried samples -----------------------------------------------------------------------------------
# Samples contained in a report: rows of a table, full texts, and data for the token view.


#: Maximum number of characters of a text in a cell; the sample itself shows the full text.
CELL_CHARS = 160


def table_html(context: Context, samples: Mapping[int, Sample], outcome: QueryResult) -> str:
    """Return a table with one row per sample, in the given order; each row links to its sample.

    Parameters
    ----------
    context : Context
    samples : mapping of int to Sample
        Samples by row of the snapshot.
    outcome : QueryResult
        Result of the query; the columns used in it are placed first.
    """
    rows = np.array([*samples], int)
    texts = {row: _texts(sample) for row, sample in samples.items()}
    whole_run = context.selection.scope == "run"
    notes, display, style = context.notes, context.display, text_style(context)
    frame = frame_of(context.view, rows, texts, outcome, notes, display, style, whole_run=whole_run)
    columns = [str(name) for name in frame if name != "uid"]
    heads = "".join(map(_head, columns))
    cells = [_cells(frame, name) for name in columns]
    lines = (
        f'<tr data-sample="{position}"><td><a href="#sample-{position}">{position + 1}</a></td>'
        f"{''.join(column[position] for column in cells)}</tr>"
        for position in range(len(frame))
    )
    return f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _texts(sample: Sample) -> dict[str, str]:
    texts = {name: getattr(sample, name) for name in schema.TEXTS}
    return {name: text for name, text in texts.items() if text is not None}


def _head(name: str) -> str:
    return f'<th title="{safe_text(column_info.describe(name).tip)}">{safe_text(title_of(name))}</th>'


def _cells(frame: pd.DataFrame, column: str) -> list[str]:
    """Return the cells of a column as HTML."""
    name, values = safe_text(column), sample_cells(frame, column)
    if pd.api.types.is_numeric_dtype(frame[column]):
        return [f'<td data-column="{name}" class="num">{text}</td>' for text in values]
    texts = ["" if pd.isna(text) else one_line(str(text)) for text in values]
    return [f'<td data-column="{name}">{safe_text(_cut(text))}</td>' for text in texts]


def _cut(text: str) -> str:
    return shorten(text, CELL_CHARS)


#: Maximum number of characters of all samples' texts and token values in the page.
MAX_CHARS = 12_000_000


@dataclass(frozen=True)
class ReportSamples:
    """Samples of a report with their HTML and JSON.

    Attributes
    ----------
    samples : list of Sample
    table : str
        HTML table with one row per sample.
    articles : list of str
        HTML of each sample's texts and numbers.
    tokens : list of dict
        JSON data of each sample for the token view.
    too_long : int
        Number of selected samples that were omitted because the page would be too large.
    unread : int
        Number of selected samples whose lines could not be read.
    embedded_chars : int
        Number of characters of embedded audio and video in ``articles``.
    media_left_out : int
        Number of audio and video files of the samples that are not embedded.
    """

    samples: list[Sample]
    table: str
    articles: list[str]
    tokens: list[dict[str, Any]]
    too_long: int
    unread: int
    embedded_chars: int = 0
    media_left_out: int = 0


def collect_samples(
    context: Context, rows: np.ndarray, outcome: QueryResult, most: int = MAX_CHARS
) -> ReportSamples:
    """Read the samples at ``rows`` and format them for the page; the first one is always included.

    Parameters
    ----------
    most : int
        Maximum number of characters of texts and token values; further samples are only counted.
        Embedded audio and video have bounds of their own, see `MediaBudget`.
    """
    budget = MediaBudget()
    samples: dict[int, Sample] = {}
    articles, tokens = [], []
    chars = unread = too_long = embedded = left_out = 0
    for row in rows.tolist():
        sample = _read(context, row)
        if sample is None:
            unread += 1
            continue
        players = sample_players(context, sample, budget)
        article = article_html(context, sample, len(articles), outcome.tests, players.html)
        packed = _packed(context, sample)
        chars += len(article) - players.embedded_chars + len(json.dumps(packed))
        if chars > most and samples:
            too_long = len(rows) - len(samples) - unread
            break
        samples[row] = sample
        articles.append(article)
        tokens.append(packed)
        embedded += players.embedded_chars
        left_out += players.left_out
    table = table_html(context, samples, outcome)
    return ReportSamples([*samples.values()], table, articles, tokens, too_long, unread, embedded, left_out)


def _read(context: Context, row: int) -> Sample | None:
    assert context.index is not None
    try:
        return fetch(context.index, context.view, row)
    except RLPanelError:
        return None


def _packed(context: Context, sample: Sample) -> dict[str, Any]:
    display = context.display
    return jsonable(pack_sample(sample, pad_token=display.pad_token, kl_estimator=display.kl_estimator))


def jsonable(value: Any) -> Any:
    """Convert a value for JSON: bytes to ``{"bytes": base64}``, NaN and Inf to ``{"number": "NaN"}``."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(item) for item in value]
    return value
