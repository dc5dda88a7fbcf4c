"""The texts of samples, read back from the files; what one page has read, the others need not read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch_texts
from rlpanel.store.snapshot.snapshot import Snapshot

#: Bytes of log that are read on the event loop; more is read on a thread while the numbers stand.
READ_NOW = 2 << 20
#: Characters of texts that are kept; a step that many pages follow is read once.
KEPT = 64 << 20
#: Columns of a row's place that, together, no other text has.
_PLACE = ("offset", "length", "part", "hash", "prompt_hash", "response_hash")

Texts = dict[str, str]


class TextCache:
    """The texts that were asked for last; any thread may ask.

    Parameters
    ----------
    most : int
        Characters to keep.
    """

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._lock = threading.Lock()
        self._texts: OrderedDict[Hashable, Texts] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._texts

    def get(self, key: Hashable) -> Texts | None:
        """The texts, which are then the newest; None if they are not kept."""
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def put(self, key: Hashable, texts: Texts) -> None:
        """Keep texts, and let go of the oldest beyond the bound."""
        with self._lock:
            self._size += _size(texts) - _size(self._texts.pop(key, {}))
            self._texts[key] = texts
            while self._size > self._most:
                self._size -= _size(self._texts.popitem(last=False)[1])


_kept = TextCache(KEPT)


def read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Texts]:
    """The texts of each row by name; a row that cannot be read says so in place of its prompt."""
    keys = _keys(index, snapshot, rows)
    return [_texts_of(index, snapshot, row, key) for row, key in zip(rows.tolist(), keys, strict=True)]


def unread_bytes(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> int:
    """Bytes of log that `read_texts` would have to read."""
    unread = [key not in _kept for key in _keys(index, snapshot, rows)]
    return int(snapshot.place("length")[rows][np.array(unread, bool)].sum())


def _keys(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Hashable]:
    """Of each row, what no other row has, nor another line in its place."""
    columns = [snapshot.place(name)[rows].tolist() for name in _PLACE]
    return [
        (index.path, snapshot.file(row), *place) for row, *place in zip(rows.tolist(), *columns, strict=True)
    ]


def _texts_of(index: RunIndex, snapshot: Snapshot, row: int, key: Hashable) -> Texts:
    texts = _kept.get(key)
    if texts is None:
        try:
            texts = fetch_texts(index, snapshot, row)
        except (RLPanelError, IndexError) as error:  # the file changed; its rows are replaced in a moment
            return {"prompt": f"({error})"}
        _kept.put(key, texts)
    return texts


def _size(texts: Texts) -> int:
    return sum(map(len, texts.values()))
