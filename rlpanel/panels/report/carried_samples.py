"""Samples contained in a report: rows of a table, full texts, and data for the token view."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.panels.report.html_table import table_html
from rlpanel.panels.report.media_players import MediaBudget, sample_players
from rlpanel.panels.report.sample_section import article_html
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.token_view import pack_sample
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.query import QueryResult

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
