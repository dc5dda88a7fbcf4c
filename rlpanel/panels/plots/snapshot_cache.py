"""Cache of results that several sessions need from the same object, such as the points of a curve.

A result is computed once, and dropped together with the object it was computed from.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from cachetools import FIFOCache

T = TypeVar("T")

#: Results of one kind that are kept for an object.
MOST = 16

#: Results by the object's id and their kind; a finalizer drops them before the id can be used again.
_results: dict[int, dict[str, FIFOCache]] = {}


def cached_on(source: object, kind: str, key: Hashable, make: Callable[[], T], most: int = MOST) -> T:
    """Return what ``make`` gives, computed when it is first asked for. Nobody may change it.

    Parameters
    ----------
    source : object
        What the result is computed from: something that never changes, such as a `RunView`. The result must
        not hold it, which would keep both in memory.
    kind : str
        What the result is.
    key : hashable
        Everything else that it depends on.
    make : callable
    most : int
        Results of this kind that are kept for ``source``; the oldest goes first.
    """
    kinds = _results.get(id(source))
    if kinds is None:
        kinds = _results[id(source)] = {}
        weakref.finalize(source, _results.pop, id(source), None).atexit = False
    results = kinds.get(kind)
    if results is None:
        results = kinds[kind] = FIFOCache(most)
    if key not in results:
        result = make()
        results[key] = result
        return result
    return cast("T", results[key])
