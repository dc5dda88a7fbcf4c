"""Cache of sample texts that were read from the log files, shared by the runs of a reader."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import suppress

from cachetools import LRUCache

#: Size of the cache in characters. Pages that follow a run share a step's texts, so each is read once.
MAX_CHARS = 64 << 20

Texts = dict[str, str]


class TextCache:
    """Least-recently-used cache of texts. Thread-safe.

    Parameters
    ----------
    most : int
        Maximum number of characters.
    """

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._texts: LRUCache[Hashable, Texts] = LRUCache(most, getsizeof=_size)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._texts

    def get(self, key: Hashable) -> Texts | None:
        """Return the texts and mark them as recently used; None if they are not cached."""
        with self._lock:
            return self._texts.get(key)

    def put(self, key: Hashable, texts: Texts) -> None:
        """Store texts and evict the least recently used ones beyond the limit."""
        with self._lock, suppress(ValueError):  # a text that is longer than the limit is not kept
            self._texts[key] = texts


def _size(texts: Texts) -> int:
    return sum(map(len, texts.values()))
