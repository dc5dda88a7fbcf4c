"""The grid's rows as a table: which columns, in which order, with which texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.panels.samples.sample_table import grid_columns
from rlpanel.panels.samples.visible_rows import attempt_column
from rlpanel.panels.ui.prompt_text import clean
from rlpanel.settings import Display
from rlpanel.store.query.notes import Notes
from rlpanel.store.query.query import QueryResult
from rlpanel.store.snapshot.run_view import RunView

#: Characters of a text that a row carries; the search looks at all of it.
TEXT_CHARS = 2000
#: Columns with a place of their own.
_PLACED = ("step", "rank", "line")


def frame_of(
    view: RunView,
    rows: np.ndarray,
    texts: Mapping[int, Mapping[str, str]],
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    *,
    whole_run: bool,
) -> pd.DataFrame:
    """The rows with the columns that the run has, in reading order; what the query names comes early.

    Parameters
    ----------
    rows : ndarray of int, shape (N,)
        The first rows of the outcome.
    texts : mapping
        Row to its texts by name; rows that are not read yet are not there.
    """
    snapshot = view.snapshot
    usual = grid_columns(snapshot, display.kl_estimator)
    asked = [name for name in dict.fromkeys(outcome.columns) if name not in (*usual, *_PLACED)]
    numbers = view.frame(rows, [*usual, *asked])
    cells: dict[str, Any] = {name: numbers[name] for name in numbers.columns}
    cells |= _texts(rows, texts, display)
    cells |= {name: values[: len(rows)] for name, values in outcome.extra.items()}
    cells |= _left(notes, numbers["uid"])
    cells |= attempt_column(snapshot, rows)
    first = ["uid", "step"] if whole_run else ["uid"]
    early = ["attempt", "prompt", "response", "tag", "reward", *asked]
    late = ["note", "ground_truth", "ref_response", "rank", "line"]
    order = dict.fromkeys([*first, *early, *usual, *late])
    return pd.DataFrame({name: cells[name] for name in order if name in cells})


def _texts(
    rows: np.ndarray, texts: Mapping[int, Mapping[str, str]], display: Display
) -> dict[str, list[str]]:
    found = [texts.get(row, {}) for row in rows.tolist()]
    logged = [
        name for name in schema.TEXTS if name in ("prompt", "response") or any(name in t for t in found)
    ]
    return {name: [_shorten(name, each.get(name, ""), display) for each in found] for name in logged}


def _shorten(name: str, text: str, display: Display) -> str:
    text = clean(text, display.pad_token, display.system_end if name == "prompt" else "")
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"


def _left(notes: Notes | None, uids: pd.Series) -> dict[str, list[str]]:
    """The columns of tags and notes, where these rows carry any."""
    left = [notes.of(uid) for uid in uids] if notes is not None and not notes.empty else []
    columns = {"tag": [note.tag for note in left], "note": [note.note for note in left]}
    return {name: texts for name, texts in columns.items() if any(texts)}
