"""Caches that sessions share: results of one object, and texts that were read from the log files."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar, cast

from cachetools import FIFOCache, LRUCache

# -- snapshot cache ------------------------------------------------------------------------------------
# Cache of results that several sessions need from the same object, such as the points of a curve.
#
# A result is computed once, and dropped together with the object it was computed from.


T = TypeVar("T")

#: Results of one kind that are kept for an object.
MAX_RESULTS = 16

#: Results by the object's id and their kind; a finalizer drops them before the id can be used again.
_results: dict[int, dict[str, FIFOCache]] = {}
#: Guards all caches. Pages are drawn on several threads, which may each compute a result that is missing.
_lock = threading.Lock()
_MISSING = object()


def cached_on(source: object, kind: str, key: Hashable, make: Callable[[], T], most: int = MAX_RESULTS) -> T:
    """Return what ``make`` gives, computed when it is first asked for. Nobody may change it. Thread-safe.

    Parameters
    ----------
    source : object
        What the result is computed from: something that never changes, such as a `RunView`. The result must
        not hold it, which would keep both in memory.
    kind : str
        What the result is.
    key : hashable
        Everything else that it depends on, such as the language if the result holds labels.
    make : callable
    most : int
        Results of this kind that are kept for ``source``; the oldest goes first.
    """
    with _lock:
        found = _results_of(source, kind, most).get(key, _MISSING)
    if found is not _MISSING:
        return cast("T", found)
    result = make()
    with _lock:
        _results_of(source, kind, most)[key] = result
    return result


def _results_of(source: object, kind: str, most: int) -> FIFOCache:
    kinds = _results.get(id(source))
    if kinds is None:
        kinds = _results[id(source)] = {}
        weakref.finalize(source, _results.pop, id(source), None).atexit = False
    return kinds.setdefault(kind, FIFOCache(most))


# -- text cache ----------------------------------------------------------------------------------------
# Cache of sample texts that were read from the log files, shared by the runs of a reader.


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
