"""Reads sample texts from the log files, once for all pages: the run's index caches them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.text_cache import Texts
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_texts
from rlpanel.store.snapshot.snapshot import Snapshot

#: Bytes of log that are read on the event loop; more is read on a thread while the numbers are shown.
READ_NOW = 2 << 20
#: Columns that together identify a row's text: its locator in the file and its hashes.
_LOCATOR = ("offset", "length", "part", "hash", "prompt_hash", "response_hash")


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
