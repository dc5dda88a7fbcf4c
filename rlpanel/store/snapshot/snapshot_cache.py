"""Cache of results that several sessions need from the same object, such as the points of a curve.

A result is computed once, and dropped together with the object it was computed from.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from cachetools import FIFOCache

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
