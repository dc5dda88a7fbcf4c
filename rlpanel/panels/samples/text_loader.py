"""Loads the texts and the table of the grid's rows, once for all sessions that show them.

If the rows' lines are long, only those of the first page are read at once, and the rest on a thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pandas as pd

from rlpanel.display_settings import Display
from rlpanel.panels.samples.sample_frame import frame_of
from rlpanel.panels.samples.text_cache import READ_NOW, Texts, read_texts, unread_bytes
from rlpanel.panels.samples.text_style import style_of
from rlpanel.panels.samples.visible_rows import PAGE
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.sample_notes import Notes
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.prompt_parts import TextStyle

#: Number of tables and texts cached per snapshot: sessions that follow a run show the same step.
_MAX_CACHED = 2
_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-texts")


class RowTexts:
    """Texts of the grid's rows, as far as they have been read.

    Attributes
    ----------
    texts : dict of int to dict
        Row → its texts by name; rows that have not been read are missing.
    whole : bool
        Whether the texts of all rows have been read.
    """

    def __init__(self) -> None:
        self.texts: dict[int, Texts] = {}
        self.whole = True
        self._lock = threading.Lock()
        self._reading: Future[None] | None = None

    def read_rest(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Future[None]:
        """Read all texts on a thread, once for all callers. Thread-safe."""
        with self._lock:
            if self._reading is None:
                self._reading = _pool.submit(self._read, index, snapshot, rows)
            return self._reading

    def _read(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        self.texts = dict(zip(rows.tolist(), read_texts(index, snapshot, rows), strict=True))
        self.whole = True

    def _read_page(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        """Read all texts if they are short, else those of the first page unless they are too long as well."""
        for part in (rows, rows[:PAGE]):
            if unread_bytes(index, snapshot, part) <= READ_NOW:
                self._read(index, snapshot, part)
                break
        self.whole = len(self.texts) == len(rows)


def texts_of(index: RunIndex | None, view: RunView, rows: np.ndarray) -> RowTexts:
    """Return the texts of ``rows``: at least those of the first page, unless its lines are very long."""
    if index is None:
        return RowTexts()

    def read() -> RowTexts:
        texts = RowTexts()
        texts._read_page(index, view.snapshot, rows)
        return texts

    return cached_on(view, "texts", (index.path, rows.tobytes()), read, most=_MAX_CACHED)


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
    return cached_on(view, "table", key, make, most=_MAX_CACHED)
