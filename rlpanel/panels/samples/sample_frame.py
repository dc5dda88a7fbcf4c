"""Builds the grid's table: its columns, their order, and the shortened texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.display_settings import Display
from rlpanel.panels.samples.cell_texts import AGENT_LINES, TEXT_CHARS
from rlpanel.panels.samples.episode_traces import trace_column
from rlpanel.panels.samples.sample_table import grid_columns
from rlpanel.panels.samples.visible_rows import attempt_column
from rlpanel.panels.texts.sample_texts import MAX_CACHED, RowTexts
from rlpanel.panels.texts.text_style import style_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_columns import POSITION_COLUMNS
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.sample_notes import Notes
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.prompt_parts import Place, TextStyle, answer_cell, prompt_cell
from rlpanel.texts.shorten import shorten


def frame_of(
    view: RunView,
    rows: np.ndarray,
    texts: Mapping[int, Mapping[str, str]],
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    style: TextStyle,
    *,
    whole_run: bool,
) -> pd.DataFrame:
    """Return the rows with the run's columns in reading order; columns that the query names come early.

    Parameters
    ----------
    rows : ndarray of int, shape (N,)
        The first rows of the query's result.
    texts : mapping
        Row → its texts by name; rows that have not been read are missing.
    outcome : QueryResult
        If it looked for texts, the cells show the places that were found.
    """
    snapshot = view.snapshot
    usual = grid_columns(snapshot, display.kl_estimator)
    queried = [name for name in dict.fromkeys(outcome.columns) if name not in (*usual, *POSITION_COLUMNS)]
    cells = view.row_columns(rows, [*usual, *queried])
    cells |= _texts(rows, texts, outcome.tests, style)
    cells |= {name: values[: len(rows)] for name, values in outcome.extra.items()}
    cells |= _note_columns(notes, cells["uid"])
    cells |= attempt_column(snapshot, rows)
    if display.fold_episodes:
        cells |= trace_column(snapshot, rows)
    first = ["uid", "step"] if whole_run else ["uid"]
    early = ["attempt", "prompt", "response", "tag", "reward", "traces", *queried]
    late = ["note", "ground_truth", "ref_response", "rank", "line"]
    order = dict.fromkeys([*first, *early, *usual, *late])
    frame = pd.DataFrame({name: cells[name] for name in order if name in cells})
    # Texts in which places were found show these. Filters of the columns look at the texts as logged.
    frame.attrs[AGENT_LINES] = not outcome.tests
    return frame


def table_frame(
    index: RunIndex | None,
    view: RunView,
    rows: np.ndarray,
    texts: RowTexts,
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    *,
    whole_run: bool,
) -> pd.DataFrame:
    """Return `frame_of`, cached for all sessions unless there are notes or columns of the query alone."""

    def make() -> pd.DataFrame:
        return frame_of(view, rows, row_texts, outcome, notes, display, style, whole_run=whole_run)

    row_texts = texts.texts
    style = style_of(index, view.snapshot, display) if index is not None else TextStyle()
    if outcome.extra or (notes is not None and not notes.empty):
        return make()
    key = (
        rows.tobytes(), len(row_texts), tuple(outcome.columns), outcome.tests, display.kl_estimator, style,
        whole_run, display.fold_episodes,
    )  # fmt: skip
    return cached_on(view, "table", key, make, most=MAX_CACHED)


def _texts(
    rows: np.ndarray,
    texts: Mapping[int, Mapping[str, str]],
    tests: Sequence[TextPredicate],
    style: TextStyle,
) -> dict[str, list[str]]:
    row_texts = [texts.get(row, {}) for row in rows.tolist()]
    logged = [
        name for name in schema.TEXTS if name in ("prompt", "response") or any(name in t for t in row_texts)
    ]
    finder = PlaceFinder(tests)
    columns = {}
    for name in logged:
        column = [each.get(name, "") for each in row_texts]
        # The samples of a group have the same prompt, which is worked on once.
        cells = {text: _cell(name, text, finder.places(name, text), style) for text in {*column}}
        columns[name] = [cells[text] for text in column]
    return columns


def _cell(name: str, text: str, places: Sequence[Place], style: TextStyle) -> str:
    shown = (
        prompt_cell(text, style, places, narrow=True)
        if name == "prompt"
        else answer_cell(text, style, places)
    )
    return shorten(shown, TEXT_CHARS)


def _note_columns(notes: Notes | None, uids: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of tags and notes that are not empty for these rows."""
    row_notes = [notes.of(uid) for uid in uids] if notes is not None and not notes.empty else []
    columns = {"tag": [note.tag for note in row_notes], "note": [note.note for note in row_notes]}
    return {name: texts for name, texts in columns.items() if any(texts)}
