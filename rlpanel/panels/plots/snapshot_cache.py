"""What several sessions need alike is worked out once, and goes with what it was worked out from."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

T = TypeVar("T")

#: Most results of one kind that are kept of a thing.
MOST = 16


def cached_on(thing: object, kind: str, key: Hashable, make: Callable[[], T], most: int = MOST) -> T:
    """What ``make`` gives, worked out when it is first asked for; nobody may change it.

    Parameters
    ----------
    thing : object
        What it is worked out from, such as a snapshot: something that never changes. It holds the result,
        so a result that held the thing in turn would keep both in memory for longer than need be.
    kind : str
        What it is.
    key : hashable
        All else that it depends on.
    make : callable
    most : int
        Results of this kind that are kept; the oldest goes first.
    """
    kinds = vars(thing).setdefault("_shared_by_views", {})  # as functools.cached_property does
    kept = cast("dict[Hashable, T]", kinds.setdefault(kind, {}))
    if key not in kept:
        found = make()
        while len(kept) >= most:
            kept.pop(next(iter(kept)), None)
        kept[key] = found
        return found
    return kept[key]
