"""The texts of the grid's rows as far as they are read, and its table: the same for all who look at them.

Of rows whose lines are long, those of the first page are read at once and the others on a thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pandas as pd

from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.samples.sample_frame import frame_of
from rlpanel.panels.samples.sample_table import PAGE
from rlpanel.panels.samples.text_cache import READ_NOW, Texts, read_texts, unread_bytes
from rlpanel.settings import Display
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes import Notes
from rlpanel.store.query.query import QueryResult
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Tables of a snapshot that are kept, and texts: sessions that follow look at one step.
_KEPT = 2
_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-texts")


class RowTexts:
    """The texts of some rows.

    Attributes
    ----------
    texts : dict of int to dict
        Row to its texts by name; rows that are not read yet are not there.
    whole : bool
        Whether all are read.
    """

    def __init__(self) -> None:
        self.texts: dict[int, Texts] = {}
        self.whole = True
        self._lock = threading.Lock()
        self._reading: Future[None] | None = None

    def read_rest(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Future[None]:
        """Read all on a thread, once, whoever asks; any thread may."""
        with self._lock:
            if self._reading is None:
                self._reading = _pool.submit(self._read, index, snapshot, rows)
            return self._reading

    def _read(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        self.texts = dict(zip(rows.tolist(), read_texts(index, snapshot, rows), strict=True))
        self.whole = True

    def _read_page(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        """All if that is little, else the first page."""
        for first in (rows, rows[:PAGE]):
            if unread_bytes(index, snapshot, first) <= READ_NOW:
                self._read(index, snapshot, first)
                break
        self.whole = len(self.texts) == len(rows)


def texts_of(index: RunIndex | None, view: RunView, rows: np.ndarray) -> RowTexts:
    """The texts of ``rows``, those of the first page at least unless its lines are very long."""
    if index is None:
        return RowTexts()

    def read() -> RowTexts:
        made = RowTexts()
        made._read_page(index, view.snapshot, rows)
        return made

    return cached_on(view, "texts", (index.path, rows.tobytes()), read, most=_KEPT)


def table_frame(
    view: RunView,
    rows: np.ndarray,
    texts: RowTexts,
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    *,
    whole_run: bool,
) -> pd.DataFrame:
    """`frame_of`, made once for all who ask for the same, unless readers left notes on the run."""

    def make() -> pd.DataFrame:
        return frame_of(view, rows, known, outcome, notes, display, whole_run=whole_run)

    known = texts.texts
    if outcome.extra or (notes is not None and not notes.empty):
        return make()
    shown = (display.kl_estimator, display.pad_token, display.system_end, whole_run)
    key = (rows.tobytes(), len(known), tuple(outcome.columns), *shown)
    return cached_on(view, "table", key, make, most=_KEPT)
