"""Limits of a bisection: what the data of a run cannot show about its chain, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from rlpanel.bisect.bisection import Link
from rlpanel.bisect.carried_changes import BisectWindow
from rlpanel.bisect.chain_words import (
    BEFORE_FIRST,
    BY_TIME,
    FEW_BEFORE,
    NO_GROUP,
    NO_TEXTS,
    NOT_WITHIN,
    ONE_GROUP,
    OUTSIDE,
    RESUMED,
    TOGETHER,
    UNEXPLAINED,
    Sentence,
)
from rlpanel.bisect.change_links import name_of
from rlpanel.bisect.run_changes import RunChange

#: Steps by which two onsets may differ while they count as simultaneous.
SIMULTANEOUS = 1
#: Steps from the onset in which a restart counts.
_NEAR_RESTART = 8
#: A first link that explains less than this share leaves a part open; fewer steps before show little.
_MAX_EXPLAINED, _FEW_BEFORE = 0.8, 12


def limits_of(
    window: BisectWindow, goal: RunChange, chain: Sequence[RunChange], links: Sequence[Link]
) -> Iterator[Sentence]:
    """Yield what the data cannot show.

    Parameters
    ----------
    window : BisectWindow
    goal : RunChange
        The target's change.
    chain : sequence of RunChange
        What leads to it, the first cause first.
    links : sequence of Link
        The same as links.
    """
    context, steps = window.context, window.context.steps
    for one, two in pairwise(chain):
        if abs(two.at - one.at) <= SIMULTANEOUS:
            yield Sentence(TOGETHER, {"one": name_of(one), "two": name_of(two), "step": int(steps[one.at])})
    yield from (Sentence(BY_TIME, {"name": link.name}) for link in links if link.by == "time")
    if links and links[0].share < _MAX_EXPLAINED:
        yield Sentence(UNEXPLAINED, {"share": max(0.0, 1 - links[0].share)})
    yield Sentence(BEFORE_FIRST if links else OUTSIDE)
    if not context.view.grouped:
        yield Sentence(NO_GROUP)
    elif _has_one_group(window):
        yield Sentence(ONE_GROUP)
    elif links and all(np.isnan(link.within) for link in links):
        yield Sentence(NOT_WITHIN)
    before = goal.at - window.first
    if before < _FEW_BEFORE:
        yield Sentence(FEW_BEFORE, {"steps": before})
    for each in context.snapshot.restarts:
        if abs(each - int(steps[goal.at])) <= _NEAR_RESTART:
            yield Sentence(RESUMED, {"step": each})
    if context.texts is None:
        yield Sentence(NO_TEXTS)


def _has_one_group(window: BisectWindow) -> bool:
    """Return True if no step that was looked at has a second group."""
    pairs = np.unique(np.stack([window.position, window.batch.group]), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1]
