"""Samples contained in a report: rows of a table, full texts, and data for the token view."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine import column_info
from rlpanel.panels.report.media_players import MediaBudget, sample_players
from rlpanel.panels.report.sample_section import article_html
from rlpanel.panels.samples.grid_cells import sample_cells
from rlpanel.panels.samples.sample_table import frame_of, title_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.text_style import text_style
from rlpanel.panels.tokens.token_view import pack_sample
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.query import QueryResult
from rlpanel.texts.shorten import one_line, shorten

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
