"""Texts of samples, read from the log files once for all pages: the run's index caches them.

If the lines of many rows are long, only those of the first page are read at once, and the rest on a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from concurrent.futures import Executor, Future

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.text_cache import Texts
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_texts
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Bytes of log that are read on the event loop; more is read on a thread while the numbers are shown.
READ_NOW = 2 << 20
#: Columns that together identify a row's text: its locator in the file and its hashes.
_LOCATOR = ("offset", "length", "part", "hash", "prompt_hash", "response_hash")
#: Number of tables and texts cached per snapshot: sessions that follow a run show the same step.
MAX_CACHED = 2


def read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Texts]:
    """Return the texts of each row by name; if a row cannot be read, its prompt holds the error."""
    keys = _keys(index, snapshot, rows)
    found = {place: texts for place, key in enumerate(keys) if (texts := index.texts.get(key)) is not None}
    missing = [place for place in range(len(rows)) if place not in found]
    for place, texts in zip(missing, fetch_all_texts(index, snapshot, rows[missing]), strict=True):
        if texts is None:
            found[place] = _texts_or_error(index, snapshot, int(rows[place]))
        else:
            found[place] = texts
            index.texts.put(keys[place], texts)
    return [found[place] for place in range(len(rows))]


def unread_bytes(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> int:
    """Return the bytes of log that `read_texts` would have to read."""
    unread = [key not in index.texts for key in _keys(index, snapshot, rows)]
    return int(snapshot.metadata("length")[rows][np.array(unread, bool)].sum())


def _keys(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Hashable]:
    """Return a cache key per row. It includes hashes, so a rewritten line is never served from the cache."""
    columns = [snapshot.metadata(name)[rows].tolist() for name in _LOCATOR]
    return [
        (index.path, snapshot.file(row), *locator)
        for row, *locator in zip(rows.tolist(), *columns, strict=True)
    ]


def _texts_or_error(index: RunIndex, snapshot: Snapshot, row: int) -> Texts:
    """Read a row once more, for the reason why it cannot be read: the next snapshot will replace it."""
    try:
        return fetch_texts(index, snapshot, row)
    except (RLPanelError, IndexError) as error:
        return {"prompt": f"({error})"}


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

    def read_rest(
        self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray, pool: Executor
    ) -> Future[None]:
        """Read all texts on a thread, once for all callers. Thread-safe."""
        with self._lock:
            if self._reading is None:
                self._reading = pool.submit(self._read, index, snapshot, rows)
            return self._reading

    def _read(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        self.texts = dict(zip(rows.tolist(), read_texts(index, snapshot, rows), strict=True))
        self.whole = True

    def _read_first(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray, first: int) -> None:
        """Read all texts if they are short, else the first ones unless they are too long as well."""
        for part in (rows, rows[:first]):
            if unread_bytes(index, snapshot, part) <= READ_NOW:
                self._read(index, snapshot, part)
                break
        self.whole = len(self.texts) == len(rows)


def texts_of(index: RunIndex | None, view: RunView, rows: np.ndarray, first: int) -> RowTexts:
    """Return the texts of rows: at least those of the ``first`` ones, unless their lines are very long."""
    if index is None:
        return RowTexts()

    def read() -> RowTexts:
        texts = RowTexts()
        texts._read_first(index, view.snapshot, rows, first)
        return texts

    return cached_on(view, "texts", (index.path, rows.tobytes()), read, most=MAX_CACHED)
