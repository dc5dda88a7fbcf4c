"""HTML table of the report's samples, with the columns and number formats of the grid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.panels.samples.grid_cells import sample_cells
from rlpanel.panels.samples.sample_table import frame_of, title_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.text_style import text_style
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
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
